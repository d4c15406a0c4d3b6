"""Why what a person asked for cannot be done."""

from landed.core.errors import LandedError


class PeopleError(LandedError):
    """Nothing changed, or nobody can tell yet; the text says what is so and what to do."""


class NotThere(PeopleError):
    """No such task, approval or policy in this tenant, or the name fits several."""


class DecisionRefused(PeopleError):
    """It was decided before, is not offered, or has to wait."""


class NotSeenYet(PeopleError):
    """The decision is on the log and no projector has folded it yet."""
