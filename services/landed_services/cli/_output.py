"""What all commands share in the way they print."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

Format = Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"], help="For people or for programs.")]


def print_json(value: Any) -> None:
    """Print *value* as JSON on standard output."""
    print(msgspec.json.format(msgspec.json.encode(value)).decode())


def counted(number: int, noun: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def note(text: str) -> None:
    """Say something to the person at the terminal without touching what programs read."""
    print(text, file=sys.stderr, flush=True)


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
