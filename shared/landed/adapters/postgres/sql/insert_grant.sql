-- A grant that ceilings count, now or when one is set: with its decision, and again where it is folded without having been decided.
INSERT INTO grants (tenant_id, route, operation_id, claim_id, attempt, effect_type, decided_at_ms, void)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (tenant_id, route, operation_id, claim_id) DO UPDATE SET void = true
WHERE EXCLUDED.void AND NOT grants.void
