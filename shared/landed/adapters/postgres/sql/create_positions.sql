-- A position for each partition of the topic, the first time; the number of those that there are tells whether partitions were added.
INSERT INTO positions (partition, topic_id, next_offset, leader_epoch, owner_epoch, owner, backend_pid, pruned_before, updated_at_ms)
SELECT k.partition, %(topic_id)s, 0, -1, 0, '', 0, 0, 0
FROM generate_series(0, %(partitions)s::integer - 1) AS k (partition)
WHERE NOT EXISTS (SELECT FROM positions)
ON CONFLICT (partition) DO NOTHING
