DROP INDEX notifications_of_operations;
DROP INDEX events_of_reviews;
