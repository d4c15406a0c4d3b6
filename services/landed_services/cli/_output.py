"""What all commands share in the way they print."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal, TextIO

import msgspec
from cyclopts import Parameter

Format = Annotated[
    Literal["text", "json", "jsonl"],
    Parameter(name=["--output", "-o"], help="text is for people; jsonl: one JSON object a line."),
]
WIDTH: Final = 80
"""Columns that every terminal has."""
_COLUMN_MIN: Final = 8


def print_json(value: Any) -> None:
    """Print *value* as JSON on standard output."""
    print(msgspec.json.format(msgspec.json.encode(value)).decode())


def print_value(value: Any, output: str) -> None:
    """Print *value* for programs: `json` indented, `jsonl` on one line."""
    if output == "jsonl":
        print(msgspec.json.encode(value).decode())
    else:
        print_json(value)


def print_list(values: Sequence[Any], output: str) -> None:
    """Print *values* for programs: `json` as an array, `jsonl` an object a line."""
    if output == "jsonl":
        for value in values:
            print_value(value, output)
    else:
        print_json(list(values))


def plain(text: str) -> str:
    """*text* without what would move the cursor of a terminal: ids and reasons come from elsewhere."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def width(stream: TextIO | None = None) -> int:
    """Columns to print in: those of the terminal where a person watches, and `WIDTH` for a pipe.

    Args:
        stream: where it is printed; None: standard output.
    """
    try:
        return max(40, os.get_terminal_size((stream or sys.stdout).fileno()).columns)
    except (OSError, ValueError):
        return WIDTH


def print_text(text: str, *, indent: str = "", rest: str | None = None, to: TextIO | None = None) -> None:
    """Print a line for people, broken where it is too long; a word is never broken, so that a path can be copied.

    Args:
        indent: of the first line.
        rest: of those below it; as the first one unless given.
        to: where it is printed; None: standard output.
    """
    below = indent if rest is None else rest
    lines = textwrap.wrap(
        plain(text),
        width(to),
        initial_indent=indent,
        subsequent_indent=below,
        break_on_hyphens=False,
        break_long_words=False,
    )
    print("\n".join(lines), file=to, flush=to is not None)


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """What is known about one thing, a name and its text a line."""
    wide = max(12, *(len(name) for name, _ in facts)) + 1
    for name, text in facts:
        print_text(text, indent=name.ljust(wide), rest=" " * wide)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns under their names, each as wide as its widest value. Where the terminal is too narrow the widest are made
    narrower, and a value goes on in the line below: nothing is cut.
    """
    lines = [list(columns), *([plain(text) for text in row] for row in rows)]
    widths = [max(len(line[number]) for line in lines) for number in range(len(columns))]
    room = width() - 2 * (len(columns) - 1)
    while sum(widths) > room and max(widths) > _COLUMN_MIN:
        widths[widths.index(max(widths))] -= 1
    for line in lines:
        cells = [_cell(text, wide) for text, wide in zip(line, widths, strict=True)]
        for level in range(max(map(len, cells))):
            parts = [(cell[level] if level < len(cell) else "").ljust(wide) for cell, wide in zip(cells, widths, strict=True)]
            print("  ".join(parts).rstrip())


def _cell(text: str, wide: int) -> list[str]:
    if len(text) <= wide:
        return [text]
    return textwrap.wrap(text, wide, break_on_hyphens=False)


def counted(number: int, noun: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def note(text: str) -> None:
    """Say something to the person at the terminal without touching what programs read: broken where it is too long for the
    terminal, and as it is where it goes into a file, so that a message is found in one line.
    """
    if not sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
        return
    for line in text.splitlines():
        words = line.lstrip()
        before = line[: len(line) - len(words)]
        print_text(words, indent=before, rest=f"{before}  ", to=sys.stderr)


@contextmanager
def download_progress() -> Iterator[Any]:
    """A `landed.adapters.embedded.Progress`: steps as lines, downloads as a bar when a person is watching."""
    from landed.adapters.embedded import Step, to_stderr

    if not sys.stderr.isatty():
        yield to_stderr
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Downloading Apache Kafka", visible=False)

        def show(step: Step) -> None:
            if step.bytes_total:
                bar.update(task, visible=True, completed=step.bytes_done, total=step.bytes_total)
            else:
                bar.console.print(step.text, highlight=False, markup=False, soft_wrap=True)

        yield show
