-- Forgets events that are decided now.
DELETE FROM undecided AS u
USING unnest(%(partitions)s::integer[], %(offsets)s::bigint[]) AS k (partition, log_offset)
WHERE u.partition = k.partition AND u.log_offset = k.log_offset
