-- How far each partition is folded.
SELECT partition, owner_epoch, topic_id, next_offset, last_offset, last_digest, leader_epoch FROM positions ORDER BY partition
