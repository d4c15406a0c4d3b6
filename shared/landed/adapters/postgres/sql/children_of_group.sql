-- Groups that were opened under another one.
SELECT r.route, r.group_state FROM routes AS r
WHERE r.tenant_id = %(tenant_id)s AND r.parent_group = %(group_id)s
ORDER BY r.route
