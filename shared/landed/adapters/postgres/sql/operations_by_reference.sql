-- Operations of any tenant that have one of these references on record, now or earlier: an inverse must not act on somebody else's.
SELECT k.reference, o.tenant_id, o.operation_id, o.tool
FROM unnest(%(references)s::text[]) AS k (reference)
JOIN operations AS o ON o.reference = k.reference
UNION ALL
SELECT k.reference, o.tenant_id, o.operation_id, o.tool
FROM unnest(%(references)s::text[]) AS k (reference)
JOIN operations AS o ON o.earlier_references IS NOT NULL AND o.earlier_references @> ARRAY[k.reference]
