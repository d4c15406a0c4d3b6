-- What comes first, who works on it, and how much each provider may be asked.

ALTER TABLE operations ADD COLUMN stakes_rank smallint;
COMMENT ON COLUMN operations.stakes_rank IS 'of what is due, now or later: 0 for money, rising as less is at stake';
ALTER TABLE operations ADD COLUMN gives_up_at_ms bigint;
COMMENT ON COLUMN operations.gives_up_at_ms IS 'when automation stops trying and a person is asked; null where nothing is due';

-- One row for each reconciler that is there or was a moment ago. Not folded from the log, as what follows.
CREATE TABLE reconcilers (
    name text PRIMARY KEY,
    beat_at_ms bigint NOT NULL
);

-- Tokens of the providers, shared by all reconcilers: each is good for one look or one repeated request.
CREATE TABLE provider_budgets (
    provider text PRIMARY KEY,
    tokens double precision NOT NULL,
    granted integer NOT NULL,
    refilled_at_ms bigint NOT NULL
);
COMMENT ON COLUMN provider_budgets.tokens IS 'left at refilled_at_ms; below zero while the provider is left alone';
COMMENT ON COLUMN provider_budgets.granted IS 'to whoever asked last';
