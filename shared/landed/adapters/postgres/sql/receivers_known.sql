-- From when on each receiver is told: from now, where it is new or another tenant's by now.
INSERT INTO receivers (name, tenant_id, since_ms)
SELECT k.name, k.tenant_id, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM unnest(%(names)s::text[], %(tenant_ids)s::text[]) AS k (name, tenant_id)
ON CONFLICT (name) DO UPDATE
SET (tenant_id, since_ms) = (EXCLUDED.tenant_id, EXCLUDED.since_ms)
WHERE receivers.tenant_id <> EXCLUDED.tenant_id
