-- A grant was released: nothing of it is underway.
WITH released AS (
    UPDATE resources_taken SET void = true
    WHERE tenant_id = %(tenant_id)s AND route = %(route)s AND operation_id = %(operation_id)s AND claim_id = %(claim_id)s
)
UPDATE grants SET void = true
WHERE tenant_id = %(tenant_id)s AND route = %(route)s AND operation_id = %(operation_id)s AND claim_id = %(claim_id)s
