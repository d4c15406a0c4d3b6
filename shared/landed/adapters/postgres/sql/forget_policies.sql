-- The policies are folded anew: until every partition has caught up, nobody decides by them.
UPDATE policy_revision SET whole = false, revision = revision + 1
