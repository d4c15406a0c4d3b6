-- Says that the tables hold what stood on the log when the partition was taken over.
UPDATE positions AS p
SET caught_up = true
FROM unnest(%(partitions)s::integer[], %(owner_epochs)s::bigint[]) AS k (partition, owner_epoch)
WHERE p.partition = k.partition AND p.owner_epoch = k.owner_epoch
