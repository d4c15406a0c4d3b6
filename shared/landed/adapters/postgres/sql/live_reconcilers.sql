-- Services of a kind that said a moment ago that they are there.
SELECT name
FROM reconcilers
WHERE kind = %(kind)s AND beat_at_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - %(dead_after_ms)s::bigint
ORDER BY name
