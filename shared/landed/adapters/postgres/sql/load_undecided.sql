-- Events that wait for a decision since they were folded while catching up, in log order.
SELECT u.partition, u.log_offset, e.at_ms, e.digest, e.value
FROM undecided AS u
JOIN events AS e ON e.partition = u.partition AND e.log_offset = u.log_offset
WHERE u.partition = ANY(%(partitions)s)
ORDER BY u.partition, u.log_offset
