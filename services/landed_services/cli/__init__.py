"""The command line, ``landed``: every command a function in a module of its own, loaded when it is called.

To add one: write ``def show(...)`` in a module here and add one line to ``COMMANDS`` in ``_commands.py``.
"""

from __future__ import annotations

import sys

from ._commands import overview

__all__ = ["main"]


def main() -> None:
    """Run the command named in ``sys.argv`` and exit; exit codes as in ``landed --help``."""
    if sys.argv[1:] in ([], ["--help"], ["-h"]):
        print(overview(), end="")
        return
    try:
        from ._app import run
    except ModuleNotFoundError as error:
        if error.name not in ("cyclopts", "rich"):
            raise
        print("landed: the command line needs: pip install 'landed[cli]'", file=sys.stderr)
        sys.exit(3)
    except KeyboardInterrupt:
        print("landed: interrupted: nothing was changed", file=sys.stderr)
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))
