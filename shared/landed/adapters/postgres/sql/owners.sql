-- Who owns each partition, and whether it has caught up there.
SELECT partition, owner, owner_epoch, caught_up FROM positions ORDER BY partition
