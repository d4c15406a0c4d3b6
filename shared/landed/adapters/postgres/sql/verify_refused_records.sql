-- Refused records of a span of a partition, the columns in the order of insert_refused.
SELECT partition, log_offset, reason, field, at_ms, digest, record_key, first_bytes, froze
FROM refused_records
WHERE partition = %(partition)s AND log_offset >= %(first)s AND log_offset < %(last)s
