-- Projectors that are there: they said so a moment ago, and their session exists. A killed process loses it at once.
SELECT p.name
FROM projectors AS p
JOIN pg_stat_activity AS a ON a.pid = p.backend_pid AND a.backend_start = p.backend_start
WHERE p.beat_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - %(dead_after_ms)s::bigint
ORDER BY p.name
