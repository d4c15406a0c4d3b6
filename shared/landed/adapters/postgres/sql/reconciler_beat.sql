-- Says that a reconciler is there.
INSERT INTO reconcilers (name, beat_at_ms)
VALUES (%(name)s, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
ON CONFLICT (name) DO UPDATE SET beat_at_ms = EXCLUDED.beat_at_ms
