-- Tokens of a provider: so many a second come back, at most a second's worth is kept, and what was granted is taken off.
INSERT INTO provider_budgets AS b (provider, tokens, granted, refilled_at_ms)
VALUES (
    %(provider)s,
    greatest(%(per_second)s::double precision, 1) - least(%(wanted)s::integer, floor(greatest(%(per_second)s::double precision, 1))),
    least(%(wanted)s::integer, floor(greatest(%(per_second)s::double precision, 1))),
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint
)
ON CONFLICT (provider) DO UPDATE
SET (tokens, granted, refilled_at_ms) = (
    SELECT f.there - f.given, f.given, f.now_ms
    FROM (
        SELECT n.there, n.now_ms, greatest(0, least(%(wanted)s::integer, floor(n.there)))::integer AS given
        FROM (
            SELECT
                c.now_ms,
                least(
                    greatest(%(per_second)s::double precision, 1),
                    b.tokens + greatest(c.now_ms - b.refilled_at_ms, 0) * %(per_second)s::double precision / 1000
                ) AS there
            FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms) AS c
        ) AS n
    ) AS f
)
RETURNING granted
