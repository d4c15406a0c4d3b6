"""Where a drill tries a contract: a provider that may be called in earnest, and how a tool is led to it."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import msgspec


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A provider on which effects cost nothing.

    A drill calls `arguments`, the tool and its probes only after the place was checked: whatever is not on this machine needs a
    person's word.
    """

    url: str
    """Where the provider is, `http://127.0.0.1:8420` or `https://staging.example`."""
    use: Callable[[str], object]
    """Leads the tool and its probes to the provider at this address from now on: a fault proxy's where one can stand between
    (`http` only), else `url` itself."""
    arguments: Callable[[], Mapping[str, Any]]
    """Arguments of one call of the tool, each time of another intent, such as a refund of a new charge."""


StageFunction: TypeAlias = Callable[[], AbstractContextManager[Stage]]
