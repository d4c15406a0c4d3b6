-- Decisions that have not come back, in the order in which they were made.
SELECT partition, number, claim_id, reply_to, decided_at_ms, value
FROM decisions
WHERE partition = ANY(%(partitions)s) AND returned_offset IS NULL
ORDER BY partition, number
