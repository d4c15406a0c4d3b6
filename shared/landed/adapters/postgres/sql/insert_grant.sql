-- A grant that ceilings count: with its decision, and again when it comes back through the log.
INSERT INTO grants (tenant_id, route, operation_id, claim_id, attempt, effect_type, decided_at_ms, void)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (tenant_id, route, operation_id, claim_id) DO UPDATE SET void = grants.void OR EXCLUDED.void
