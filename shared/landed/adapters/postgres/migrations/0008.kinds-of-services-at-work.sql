-- Which of those that say that they are there divide the same work among themselves.

ALTER TABLE reconcilers ADD COLUMN kind text NOT NULL DEFAULT 'reconciler';
COMMENT ON COLUMN reconcilers.kind IS 'reconciler or compensator: each kind divides the partitions among its own';
