-- How much the view holds.
SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM operations)
