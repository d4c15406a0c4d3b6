-- Says that a projector is there, under the session that says so.
INSERT INTO projectors (name, backend_pid, backend_start, beat_at_ms)
SELECT %(name)s, a.pid, a.backend_start, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM pg_stat_activity AS a
WHERE a.pid = pg_backend_pid()
ON CONFLICT (name) DO UPDATE SET beat_at_ms = EXCLUDED.beat_at_ms
