-- Where the events of a group lie on the log, and up to where its partition is folded.
SELECT e.partition, min(e.log_offset), max(e.log_offset), p.next_offset
FROM events AS e
INNER JOIN positions AS p ON e.partition = p.partition
WHERE e.tenant_id = %(tenant_id)s AND e.route = %(route)s
GROUP BY e.partition, p.next_offset
