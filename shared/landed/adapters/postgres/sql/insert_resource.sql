-- A resource that a grant takes: with its decision, and again when it comes back through the log.
INSERT INTO resources_taken (tenant_id, resource, route, operation_id, claim_id, attempt, decided_at_ms, void)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (tenant_id, resource, route, operation_id, claim_id) DO UPDATE SET void = resources_taken.void OR EXCLUDED.void
