"""What a replay refuses to read."""

from landed.core.errors import LandedError


class ReplayError(LandedError):
    """Base of all."""


class NoBundle(ReplayError):
    """The file is no bundle of this format."""


class SeveralFit(ReplayError):
    """What was typed is no whole id, and several ids begin with it."""


class BundleRefused(ReplayError):
    """The bundle was changed since it was exported; names the first bad line, and the record on it."""
