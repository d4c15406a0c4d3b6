ALTER TABLE positions DROP COLUMN caught_up;
DROP TABLE projectors;
