DROP INDEX routes_needing_a_person;
DROP TABLE breakers;
DROP TABLE resources_taken;
DROP TABLE grants;
