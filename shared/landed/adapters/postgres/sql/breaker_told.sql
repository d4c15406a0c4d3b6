-- The log was told of a breaker: with the decision, and again when it comes back.
INSERT INTO breakers (tenant_id, key, partition, route, breaker, refused_at_ms, resets_at_ms, told, told_open, told_at_ms)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (tenant_id, key) DO UPDATE SET told = EXCLUDED.told, told_open = EXCLUDED.told_open, told_at_ms = EXCLUDED.told_at_ms
WHERE breakers.told_at_ms < EXCLUDED.told_at_ms
