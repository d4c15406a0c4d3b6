-- A policy changed in this transaction: projectors read the policies again.
UPDATE policy_revision SET revision = revision + 1
