-- What people decide: policies of tenants, approvals that are open, and what agents told their users.

-- Policies stand in `routes`, under `policy:<key>`. A projector reads those of a tenant again only after `revision` has risen.
CREATE TABLE policy_revision (
    revision bigint NOT NULL,
    whole boolean NOT NULL
);
COMMENT ON COLUMN policy_revision.whole IS 'whether every policy that stood on the log was folded; false after a rebuild began';
INSERT INTO policy_revision VALUES (1, false);
CREATE INDEX routes_of_policies ON routes (tenant_id) WHERE route LIKE 'policy:%';

ALTER TABLE operations ADD COLUMN approval_id text;
COMMENT ON COLUMN operations.approval_id IS 'of a request that a person may decide, or that was approved and has not run';
ALTER TABLE operations ADD COLUMN approval_expires_at_ms bigint;
CREATE INDEX operations_in_approval ON operations (tenant_id, approval_expires_at_ms) WHERE approval_id IS NOT NULL;

CREATE INDEX events_of_people ON events (tenant_id, type, at_ms) WHERE type IN ('agent_statement', 'policy_changed');
