-- Number of the last decision made on each partition.
SELECT k.partition, coalesce((SELECT max(d.number) FROM decisions AS d WHERE d.partition = k.partition), 0)
FROM unnest(%(partitions)s::integer[]) AS k (partition)
