-- Groups of a tenant that hold an operation of that id.
SELECT DISTINCT route FROM operations WHERE operation_id = %(operation_id)s AND tenant_id = %(tenant_id)s
