-- Says that a service is there.
INSERT INTO reconcilers (name, kind, beat_at_ms)
VALUES (%(name)s, %(kind)s, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
ON CONFLICT (name) DO UPDATE SET beat_at_ms = EXCLUDED.beat_at_ms
