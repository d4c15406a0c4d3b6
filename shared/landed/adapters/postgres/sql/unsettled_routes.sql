-- Routes of a partition from whose state a decision may follow that nobody made while the log was caught up with.
SELECT r.tenant_id, r.route FROM routes AS r WHERE r.partition = ANY(%(partitions)s) AND r.group_state = 'unwinding'
UNION
SELECT o.tenant_id, o.route FROM operations AS o
WHERE o.partition = ANY(%(partitions)s) AND o.state = 'prepared' AND o.replaced_by IS NOT NULL
