-- Operations of a tenant that news names: by operation id, else by a reference.
SELECT o.route, o.group_id, o.body
FROM operations AS o
WHERE o.tenant_id = %(tenant_id)s AND o.operation_id = %(operation_key)s AND o.state <> 'none'
UNION ALL
SELECT o.route, o.group_id, o.body
FROM operations AS o
WHERE o.tenant_id = %(tenant_id)s AND o.reference = %(reference)s
UNION ALL
SELECT o.route, o.group_id, o.body
FROM operations AS o
WHERE o.tenant_id = %(tenant_id)s AND o.earlier_references IS NOT NULL AND o.earlier_references @> ARRAY[%(reference)s::text]
