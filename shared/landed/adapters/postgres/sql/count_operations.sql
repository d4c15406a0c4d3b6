-- How many operations the view holds.
SELECT count(*) FROM operations
