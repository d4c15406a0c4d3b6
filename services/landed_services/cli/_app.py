"""Running one command, and how its failure is shown."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from cyclopts import App, CycloptsError

from ._changes import left_behind
from ._commands import COMMANDS
from ._exit import Exit, exit_code
from ._output import note


def build() -> App:
    """The application with all commands, none of them loaded."""
    app = App(
        name="landed",
        version=lambda: version("landed"),
        help_format="plaintext",
        result_action="return_value",
        suppress_keyboard_interrupt=False,  # `run` says what is left
    )
    for name, function, _summary in COMMANDS:
        app.command(function, name=name)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command; what a command returns is its exit code, None is 0."""
    try:
        result = build()(arguments, exit_on_error=False)
        return int(result) if isinstance(result, int) else Exit.DONE
    except CycloptsError:
        return Exit.USAGE  # it has said what is wrong
    except KeyboardInterrupt:
        note(f"landed: interrupted: {left_behind(arguments)}")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has enough. Nothing more can be written, also not by the interpreter's last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE
    except Exception as error:
        if os.environ.get("LANDED_DEBUG"):
            raise
        code = exit_code(error)
        text = str(error) if code is not None else f"defect: {type(error).__name__}: {error} (LANDED_DEBUG=1 shows where)"
        note(f"landed: {text}")
        return Exit.INTERNAL if code is None else code
