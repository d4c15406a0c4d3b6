-- Marks decisions that came back through the log.
UPDATE decisions AS d SET returned_offset = k.log_offset
FROM unnest(%(partitions)s::integer[], %(numbers)s::bigint[], %(offsets)s::bigint[]) AS k (partition, number, log_offset)
WHERE d.partition = k.partition AND d.number = k.number
