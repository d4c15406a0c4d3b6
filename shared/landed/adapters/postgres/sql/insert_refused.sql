-- Keeps a record that is not taken.
INSERT INTO refused_records (partition, log_offset, reason, field, at_ms, digest, record_key, first_bytes, froze)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
