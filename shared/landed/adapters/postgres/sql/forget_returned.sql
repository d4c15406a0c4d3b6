-- Decisions that came back stand on the log; those on their way are appended by the next projector.
DELETE FROM decisions WHERE returned_offset IS NOT NULL
