-- Several projectors share the partitions: who is there, and which partitions have reached the end of the log.

-- One row for each projector that is there or was a moment ago.
CREATE TABLE projectors (
    name text PRIMARY KEY,
    backend_pid integer NOT NULL,
    backend_start timestamptz NOT NULL,
    beat_at_ms bigint NOT NULL
);
COMMENT ON COLUMN projectors.backend_pid IS 'of the session that beats; when it is gone, so is the projector';

ALTER TABLE positions ADD COLUMN caught_up boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN positions.caught_up IS 'the owner has folded what stood on the log when it took the partition over';
