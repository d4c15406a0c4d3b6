-- No token of a provider for a while: so many are missing that they come back only then.
INSERT INTO provider_budgets AS b (provider, tokens, granted, refilled_at_ms)
VALUES (
    %(provider)s,
    1 - %(seconds)s::double precision * %(per_second)s::double precision,
    0,
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint
)
ON CONFLICT (provider) DO UPDATE
SET tokens = least(b.tokens, EXCLUDED.tokens), granted = 0, refilled_at_ms = EXCLUDED.refilled_at_ms
