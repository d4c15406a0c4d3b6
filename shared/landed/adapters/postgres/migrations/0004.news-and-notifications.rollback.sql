DROP TABLE notification_attempts, notifications, receivers, news;
DROP INDEX operations_by_reference;
ALTER TABLE operations DROP COLUMN earlier_references, DROP COLUMN inverse_until_ms;
