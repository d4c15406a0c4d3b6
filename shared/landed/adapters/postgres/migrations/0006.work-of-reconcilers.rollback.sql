DROP TABLE provider_budgets, reconcilers;
ALTER TABLE operations DROP COLUMN gives_up_at_ms;
ALTER TABLE operations DROP COLUMN stakes_rank;
