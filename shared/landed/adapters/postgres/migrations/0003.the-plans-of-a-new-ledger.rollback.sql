DROP INDEX operations_by_id;
CREATE INDEX operations_by_id ON operations (tenant_id, operation_id);
