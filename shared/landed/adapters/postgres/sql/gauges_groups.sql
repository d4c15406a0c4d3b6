-- Groups whose undoing waits for a person.
SELECT tenant_id, workflow_type, count(*) FROM routes WHERE group_state = 'needs_human' GROUP BY tenant_id, workflow_type
