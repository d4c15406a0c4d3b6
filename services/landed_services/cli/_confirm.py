"""The question before what cannot be taken back."""

from __future__ import annotations

import sys

from ._exit import CommandFailed, Exit


def confirm(question: str, *, yes: bool, why: str = "", otherwise: str = "Nothing was changed.") -> None:
    """Ends the command unless the person agrees to *question*.

    Args:
        why: what makes the question necessary, for whoever cannot be asked.
        otherwise: said to a person who does not agree.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(f"{why}{': ' if why else ''}nobody is there to be asked, so say --yes as well.", Exit.USAGE)
    try:
        # Not on standard output, which may be a file that nobody looks at.
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        answer = input()
    except EOFError:
        answer = ""
    except KeyboardInterrupt:
        print(file=sys.stderr)
        raise CommandFailed(otherwise, Exit.INTERRUPTED) from None
    if answer.strip().lower() not in ("y", "yes"):
        raise CommandFailed(otherwise, Exit.FOUND)
