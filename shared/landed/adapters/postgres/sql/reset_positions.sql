-- Back to the beginning of the log. The owner epochs rise, so whoever owned a partition can commit nothing more.
UPDATE positions
SET topic_id = %(topic_id)s, next_offset = 0, last_offset = NULL, last_digest = NULL, leader_epoch = -1,
    owner_epoch = owner_epoch + 1, owner = '', caught_up = false
