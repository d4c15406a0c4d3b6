"""The root of every error that the product raises on purpose; `landed.sdk.errors` draws the tree."""


class LandedError(Exception):
    """Base of all errors of the ledger. Its text names fields and rules, never content or secrets."""
