-- Ends the sessions of owners that are not there any more: one that stands still inside a transaction holds its positions locked.
-- A session that began after the position was last written only has the number of the old one.
SELECT count(pg_terminate_backend(a.pid))
FROM (
    SELECT p.backend_pid, max(p.updated_at_ms) AS updated_at_ms
    FROM positions AS p
    WHERE p.partition = ANY(%(partitions)s) AND p.owner <> '' AND NOT (p.owner = ANY(%(there)s::text[]))
    GROUP BY p.backend_pid
) AS gone
JOIN pg_stat_activity AS a ON a.pid = gone.backend_pid AND a.datname = current_database() AND a.usename = current_user
WHERE a.pid <> pg_backend_pid() AND a.backend_start <= to_timestamp((gone.updated_at_ms + 1) / 1000.0)
