-- How far each partition is folded, and for how long it has not moved.
SELECT partition, next_offset, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - updated_at_ms FROM positions
