-- A claim found no room: the newest refusal of each ceiling's key counts.
INSERT INTO breakers (tenant_id, key, partition, route, breaker, refused_at_ms, resets_at_ms)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (tenant_id, key) DO UPDATE SET
    partition = EXCLUDED.partition, route = EXCLUDED.route, breaker = EXCLUDED.breaker,
    refused_at_ms = greatest(breakers.refused_at_ms, EXCLUDED.refused_at_ms), resets_at_ms = EXCLUDED.resets_at_ms
