-- Compares and sets positions: as many rows come back as were given, or another owner or another log stands there. Beside the
-- time stands the number of the policies in the tables; null while they are not whole.
UPDATE positions AS p
SET next_offset = k.next_offset,
    last_offset = k.last_offset,
    last_digest = k.last_digest,
    leader_epoch = k.leader_epoch,
    backend_pid = pg_backend_pid(),
    updated_at_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM unnest(
    %(partitions)s::integer[], %(owner_epochs)s::bigint[],
    %(was_next)s::bigint[], %(was_digest)s::bytea[], %(was_leader)s::integer[],
    %(next)s::bigint[], %(last)s::bigint[], %(digest)s::bytea[], %(leader)s::integer[]
) AS k (
    partition, owner_epoch, was_next_offset, was_last_digest, was_leader_epoch, next_offset, last_offset, last_digest, leader_epoch
)
WHERE p.partition = k.partition
    AND p.owner_epoch = k.owner_epoch
    AND p.next_offset = k.was_next_offset
    AND p.leader_epoch = k.was_leader_epoch
    AND p.last_digest IS NOT DISTINCT FROM k.was_last_digest
RETURNING p.updated_at_ms, (SELECT r.revision FROM policy_revision AS r WHERE r.whole)
