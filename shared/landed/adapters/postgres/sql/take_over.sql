-- Makes this session the owner of partitions, creating their positions where there are none; an older owner commits nothing more.
-- Those whose owner is there are left alone.
INSERT INTO positions AS p
    (partition, topic_id, next_offset, leader_epoch, owner_epoch, owner, backend_pid, pruned_before, updated_at_ms, caught_up)
SELECT
    k.partition, %(topic_id)s, 0, -1, 1, %(owner)s, pg_backend_pid(), 0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, false
FROM unnest(%(partitions)s::integer[]) AS k (partition)
ORDER BY k.partition
ON CONFLICT (partition) DO UPDATE
SET owner_epoch = p.owner_epoch + 1,
    owner = EXCLUDED.owner,
    backend_pid = EXCLUDED.backend_pid,
    updated_at_ms = EXCLUDED.updated_at_ms,
    caught_up = false
WHERE NOT (p.owner = ANY(%(others)s::text[]))
RETURNING p.partition, p.topic_id, p.next_offset, p.last_offset, p.last_digest, p.leader_epoch, p.owner_epoch, p.pruned_before
