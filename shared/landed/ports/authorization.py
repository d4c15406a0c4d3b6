"""Who is asked whether an inverse may be performed."""

from typing import Protocol

from landed.core.authorization import Asked, Ruling


class Authorizer(Protocol):
    """A policy. Pure by contract: the same request gets the same ruling, and nothing outside is asked."""

    def ruling(self, asked: Asked) -> Ruling:
        """The ruling on *asked*. Never raises: what cannot be evaluated is denied, with the reason."""
        ...
