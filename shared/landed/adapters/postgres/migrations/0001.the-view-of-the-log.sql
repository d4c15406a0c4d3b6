-- Tables of the view of the log, and the outbox. All but `decisions` can be dropped and folded again from the log.
--
-- Times are milliseconds since the epoch, UTC, as they stand on the log. Digests are SHA-256. Text that PostgreSQL cannot hold is
-- escaped (landed.adapters.postgres.escaping).

-- How far each partition is folded, and who folds it. Compared and set by every transaction as its first statement.
CREATE TABLE positions (
    partition integer PRIMARY KEY,
    topic_id text NOT NULL,
    next_offset bigint NOT NULL,
    last_offset bigint,
    last_digest bytea,
    leader_epoch integer NOT NULL,
    owner_epoch bigint NOT NULL,
    owner text NOT NULL,
    backend_pid integer NOT NULL,
    pruned_before bigint NOT NULL,
    updated_at_ms bigint NOT NULL
);
COMMENT ON COLUMN positions.last_digest IS 'of key and value of the record at last_offset: tells a replaced log';
COMMENT ON COLUMN positions.owner_epoch IS 'raised by whoever takes the partition over; an older owner can commit nothing more';
COMMENT ON COLUMN positions.pruned_before IS 'a database whose next_offset is older than this is not continued';

-- One row for each operation: what people and services ask for, and the whole state (`body`).
CREATE TABLE operations (
    tenant_id text NOT NULL,
    route text NOT NULL,
    operation_id text NOT NULL,
    partition integer NOT NULL,
    group_id text,
    first_offset bigint NOT NULL,
    last_offset bigint NOT NULL,
    updated_at_ms bigint,
    state text NOT NULL,
    outcome text,
    tool text,
    effect_type text,
    version bigint NOT NULL,
    attempt bigint,
    claim_id text,
    lease_end_ms bigint,
    next_check_at_ms bigint,
    doubt_since_ms bigint,
    due_at_ms bigint,
    prepared_at_ms bigint,
    settled_at_ms bigint,
    reference text,
    error_code text,
    escalated_for text,
    review_id bigint,
    review_since_ms bigint,
    review_queue text,
    review_reasons text[],
    replaces text,
    replaced_by text,
    frozen boolean NOT NULL,
    final boolean NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (tenant_id, route, operation_id)
) WITH (fillfactor = 80);
COMMENT ON COLUMN operations.due_at_ms IS 'from when automation has something to do: a lease to look after, a probe, what follows absence';
COMMENT ON COLUMN operations.body IS 'MessagePack of landed.core.state.Operation; equal states give equal bytes';
-- Compressing costs more than it saves on a hot path.
ALTER TABLE operations ALTER COLUMN body SET STORAGE EXTERNAL;

-- An id that is known under another route is found by it.
CREATE INDEX operations_by_id ON operations (tenant_id, operation_id);
CREATE INDEX operations_due ON operations (partition, due_at_ms) WHERE due_at_ms IS NOT NULL;
CREATE INDEX operations_in_review ON operations (tenant_id, review_since_ms) WHERE review_id IS NOT NULL;
CREATE INDEX operations_replaced ON operations (partition) WHERE state = 'prepared' AND replaced_by IS NOT NULL;

-- What a route knows beyond its operations: one row for each group with events of its own.
CREATE TABLE routes (
    tenant_id text NOT NULL,
    route text NOT NULL,
    partition integer NOT NULL,
    last_offset bigint NOT NULL,
    updated_at_ms bigint,
    group_state text NOT NULL,
    workflow_type text,
    parent_group text,
    version bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (tenant_id, route)
);
COMMENT ON COLUMN routes.body IS 'MessagePack of landed.core.state.Route without its operations';
CREATE INDEX routes_unwinding ON routes (partition) WHERE group_state = 'unwinding';
CREATE INDEX routes_by_parent ON routes (tenant_id, parent_group) WHERE parent_group IS NOT NULL;

-- Every event that could be read, and every record that froze an operation, as it stands on the log.
CREATE TABLE events (
    partition integer NOT NULL,
    log_offset bigint NOT NULL,
    event_id text NOT NULL,
    tenant_id text NOT NULL,
    route text NOT NULL,
    operation_id text,
    type text NOT NULL,
    at_ms bigint,
    accepted boolean NOT NULL,
    reason text,
    mark text,
    digest bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (partition, log_offset)
);
COMMENT ON COLUMN events.reason IS 'why the fold refused it; repeated: the same event stands on the log before';
ALTER TABLE events ALTER COLUMN value SET STORAGE EXTERNAL;
CREATE INDEX events_of_operation ON events (tenant_id, route, operation_id, log_offset);

-- Records that cannot be read, verified or placed; those with `froze` stand in `events` as well.
CREATE TABLE refused_records (
    partition integer NOT NULL,
    log_offset bigint NOT NULL,
    reason text NOT NULL,
    field text NOT NULL,
    at_ms bigint,
    digest bytea NOT NULL,
    record_key bytea,
    first_bytes bytea NOT NULL,
    froze boolean NOT NULL,
    PRIMARY KEY (partition, log_offset)
);

-- Claims and requests that were folded while nothing was decided (catching up), until they are decided.
CREATE TABLE undecided (
    partition integer NOT NULL,
    log_offset bigint NOT NULL,
    PRIMARY KEY (partition, log_offset)
);

-- The outbox: decisions in the order in which they were made. They become state when they come back through the log.
CREATE TABLE decisions (
    partition integer NOT NULL,
    number bigint NOT NULL,
    tenant_id text NOT NULL,
    route text NOT NULL,
    operation_id text,
    claim_id text,
    event_id text NOT NULL,
    type text NOT NULL,
    reply_to text,
    claim_offset bigint,
    decided_at_ms bigint NOT NULL,
    value bytea NOT NULL,
    returned_offset bigint,
    PRIMARY KEY (partition, number)
);
COMMENT ON COLUMN decisions.returned_offset IS 'where it came back on the log; null: on its way';
CREATE UNIQUE INDEX decisions_of_claim ON decisions (tenant_id, route, operation_id, claim_id) WHERE claim_id IS NOT NULL;
CREATE UNIQUE INDEX decisions_of_event ON decisions (tenant_id, route, operation_id, event_id) NULLS NOT DISTINCT WHERE claim_id IS NULL;
CREATE INDEX decisions_on_their_way ON decisions (partition, number) WHERE returned_offset IS NULL;
