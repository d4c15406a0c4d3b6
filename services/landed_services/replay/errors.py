"""What a replay refuses to read."""


class ReplayError(Exception):
    """Base of all."""


class NoBundle(ReplayError):
    """The file is no bundle of this format."""


class BundleRefused(ReplayError):
    """The bundle was changed since it was exported; names the first bad line, and the record on it."""
