-- What ceilings count and what calls hold alone. Folded from the log like the view; a row is there from the transaction of its
-- decision on, so that no projector decides without it. Grants that no ceiling counts have no row.

CREATE TABLE grants (
    tenant_id text NOT NULL,
    route text NOT NULL,
    operation_id text NOT NULL,
    claim_id text NOT NULL,
    attempt bigint NOT NULL,
    effect_type text NOT NULL,
    decided_at_ms bigint NOT NULL,
    void boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, route, operation_id, claim_id)
);
COMMENT ON COLUMN grants.decided_at_ms IS 'clock of the database when it was decided; windows go by it';
COMMENT ON COLUMN grants.void IS 'released, or refused by the fold: keeps its room in a window, and is not underway';
CREATE INDEX grants_by_time ON grants (tenant_id, effect_type, decided_at_ms) INCLUDE (route);

CREATE TABLE resources_taken (
    tenant_id text NOT NULL,
    resource text NOT NULL,
    route text NOT NULL,
    operation_id text NOT NULL,
    claim_id text NOT NULL,
    attempt bigint NOT NULL,
    decided_at_ms bigint NOT NULL,
    void boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, resource, route, operation_id, claim_id)
);
CREATE INDEX resources_of_operation ON resources_taken (tenant_id, route, operation_id, claim_id);

-- Breakers that opened: what the last refusal said, and what the log was told (`breaker_changed`).
CREATE TABLE breakers (
    tenant_id text NOT NULL,
    key text NOT NULL,
    partition integer NOT NULL,
    route text NOT NULL,
    breaker text NOT NULL,
    refused_at_ms bigint NOT NULL,
    resets_at_ms bigint,
    told text,
    told_open boolean NOT NULL DEFAULT false,
    told_at_ms bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, key)
);
COMMENT ON COLUMN breakers.partition IS 'of the route policy:<key>; its owner tells the log';
COMMENT ON COLUMN breakers.route IS 'group that found no room, for a ceiling of each group; else empty';
COMMENT ON COLUMN breakers.told IS 'JSON of the breaker as the log was told last; null: never';

CREATE INDEX routes_needing_a_person ON routes (tenant_id) WHERE group_state = 'needs_human';
