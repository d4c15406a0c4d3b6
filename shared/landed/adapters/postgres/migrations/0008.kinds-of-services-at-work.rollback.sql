ALTER TABLE reconcilers DROP COLUMN kind;
