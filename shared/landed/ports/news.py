"""What the view knows of news from providers. A view is late, never wrong: what it does not show yet is matched again later."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from landed.core.news import About, News


class OpenNews(msgspec.Struct, frozen=True, kw_only=True):
    """News that is to be matched again, and an operation that it names by now."""

    news: News
    about: About
    recorded: bool
    """Whether `webhook_received` of this operation is on the log."""


class NewsTables(Protocol):
    """News by its id, and operations by what news names."""

    def known(self, tenant_id: str, endpoint: str, webhook_id: str) -> str | None:
        """Digest of the message that is on record under that id; None where none is."""
        ...

    def about(self, news: News) -> Sequence[About]:
        """Operations of the tenant that *news* names."""
        ...

    def open(self, *, now_ms: int, limit: int) -> Sequence[OpenNews]:
        """News that names an operation and of which nothing followed yet, oldest first."""
        ...
