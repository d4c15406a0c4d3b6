DROP TABLE breakers;
DROP TABLE resources_taken;
DROP TABLE grants;
