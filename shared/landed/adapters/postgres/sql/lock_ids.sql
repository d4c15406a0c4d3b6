-- One decision at a time about an operation id that was never dispatched, whichever partitions it is claimed on. The locks go with
-- the transaction. Statements after this one see what the holder before committed.
SELECT pg_advisory_xact_lock(%(space)s::integer, k.bucket) FROM unnest(%(buckets)s::integer[]) AS k (bucket)
