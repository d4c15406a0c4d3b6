-- Keeps many events whose decisions wait.
COPY undecided (partition, log_offset) FROM STDIN (FORMAT BINARY)
