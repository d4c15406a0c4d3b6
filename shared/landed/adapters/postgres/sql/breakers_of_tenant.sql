-- Breakers of a tenant that ever opened, with the database's clock.
SELECT b.key, b.route, b.breaker, b.refused_at_ms, b.resets_at_ms
FROM breakers AS b WHERE b.tenant_id = %(tenant_id)s
