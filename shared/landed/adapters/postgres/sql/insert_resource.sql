-- A resource that a grant takes: with its decision, and again where it is folded without having been decided.
INSERT INTO resources_taken (tenant_id, resource, route, operation_id, claim_id, attempt, decided_at_ms, void)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (tenant_id, resource, route, operation_id, claim_id) DO UPDATE SET void = true
WHERE EXCLUDED.void AND NOT resources_taken.void
