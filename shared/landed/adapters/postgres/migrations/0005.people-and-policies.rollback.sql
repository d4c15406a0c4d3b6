DROP INDEX events_of_people;
DROP INDEX operations_in_approval;
ALTER TABLE operations DROP COLUMN approval_expires_at_ms;
ALTER TABLE operations DROP COLUMN approval_id;
DROP INDEX routes_of_policies;
DROP TABLE policy_revision;
