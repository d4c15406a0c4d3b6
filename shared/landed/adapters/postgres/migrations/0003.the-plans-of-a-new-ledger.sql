-- A look-up by tenant and route must not find this index as good as its own while the tables are new and have no statistics: it
-- would then read the whole tenant for each route. With the operation first, a tenant alone gets nothing from it.
DROP INDEX operations_by_id;
CREATE INDEX operations_by_id ON operations (operation_id, tenant_id);
