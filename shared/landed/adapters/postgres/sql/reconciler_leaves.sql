-- Takes a reconciler off the list, and those that were not heard of for an hour.
DELETE FROM reconcilers WHERE name = %(name)s OR beat_at_ms < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 3600000
