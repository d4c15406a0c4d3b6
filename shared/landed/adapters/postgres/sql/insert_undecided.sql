-- Keeps an event whose decision waits.
INSERT INTO undecided (partition, log_offset) VALUES (%s, %s)
