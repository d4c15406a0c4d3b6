-- Every partition has caught up: no policy is missing.
UPDATE policy_revision SET whole = true, revision = revision + 1 WHERE NOT whole
