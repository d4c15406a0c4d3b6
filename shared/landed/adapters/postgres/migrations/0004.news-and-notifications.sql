-- News of providers, and who is told about what waits for people.

-- What webhooks said and what followed from it, as it stands on the log: one row for each event. Folded from the log.
CREATE TABLE news (
    partition integer NOT NULL,
    log_offset bigint NOT NULL,
    at_ms bigint NOT NULL,
    kind text NOT NULL,
    tenant_id text NOT NULL,
    webhook_id text NOT NULL,
    endpoint text,
    route text,
    operation_id text,
    tools text[],
    operation_key text,
    reference text,
    status text,
    provider_time_ms bigint,
    digest text,
    receipt text,
    keep_ms bigint,
    keep_until_ms bigint,
    PRIMARY KEY (partition, log_offset)
);
COMMENT ON COLUMN news.kind IS 'unmatched, received, or outcome: the event that names it (accepted or not)';
COMMENT ON COLUMN news.keep_until_ms IS 'until when it is matched again';
CREATE INDEX news_by_id ON news (tenant_id, webhook_id);
CREATE INDEX news_kept ON news (keep_until_ms) WHERE keep_until_ms IS NOT NULL;

-- An operation is found by any reference that was seen. Hashed: a reference may be longer than an index entry.
ALTER TABLE operations ADD COLUMN earlier_references text[];
COMMENT ON COLUMN operations.earlier_references IS 'references beside the newest one; null where there are none';
CREATE INDEX operations_by_reference ON operations USING hash (reference) WHERE reference IS NOT NULL;
CREATE INDEX operations_by_earlier_reference ON operations USING gin (earlier_references) WHERE earlier_references IS NOT NULL;

ALTER TABLE operations ADD COLUMN inverse_until_ms bigint;
COMMENT ON COLUMN operations.inverse_until_ms IS 'when the window of its inverse closes; null where nothing is left to undo or it never closes';
CREATE INDEX operations_inverse_until ON operations (inverse_until_ms) WHERE inverse_until_ms IS NOT NULL;

-- From when on a receiver is told: what was so before is not news. Not folded from the log, as all that follows.
CREATE TABLE receivers (
    name text PRIMARY KEY,
    tenant_id text NOT NULL,
    since_ms bigint NOT NULL
);

-- The outbox of notifications: what each receiver is told, under the same id at every try.
CREATE TABLE notifications (
    webhook_id text PRIMARY KEY,
    receiver text NOT NULL,
    tenant_id text NOT NULL,
    kind text NOT NULL,
    route text NOT NULL,
    operation_id text NOT NULL,
    version bigint NOT NULL,
    review_since_ms bigint,
    review_open boolean NOT NULL,
    payload text NOT NULL,
    made_at_ms bigint NOT NULL,
    state text NOT NULL,
    attempts integer NOT NULL,
    next_try_at_ms bigint,
    delivered_at_ms bigint
);
COMMENT ON COLUMN notifications.version IS 'of the operation when it was made: a view that is folded anew shows older ones for a while';
COMMENT ON COLUMN notifications.state IS 'waiting, delivered or given_up';
COMMENT ON COLUMN notifications.review_open IS 'of a review that opened: whether the receiver is still to be told that it settled';
CREATE INDEX notifications_of_open_reviews ON notifications (receiver) WHERE review_open;
CREATE INDEX notifications_waiting ON notifications (receiver, next_try_at_ms) WHERE next_try_at_ms IS NOT NULL;
CREATE INDEX notifications_made ON notifications (made_at_ms);

-- Every try, begun before the first byte is sent.
CREATE TABLE notification_attempts (
    webhook_id text NOT NULL REFERENCES notifications ON DELETE CASCADE,
    number integer NOT NULL,
    began_at_ms bigint NOT NULL,
    ended_at_ms bigint,
    result text,
    PRIMARY KEY (webhook_id, number)
);
COMMENT ON COLUMN notification_attempts.result IS 'the status of the answer, or why there is none; null: not ended, or the process that tried is gone';
