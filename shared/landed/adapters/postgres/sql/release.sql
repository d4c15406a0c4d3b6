-- Gives partitions up: nobody owns them, and this session can commit nothing more about them.
UPDATE positions AS p
SET owner = '', owner_epoch = p.owner_epoch + 1
FROM unnest(%(partitions)s::integer[], %(owner_epochs)s::bigint[]) AS k (partition, owner_epoch)
WHERE p.partition = k.partition AND p.owner_epoch = k.owner_epoch
