"""How the demo prints: steps, tables, and checks that decide its exit code."""

import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO


class Screen:
    """Prints progress; remembers every check, and which failed."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.failed: list[str] = []
        self.checks: list[dict[str, Any]] = []
        self._out = out
        self._began = time.monotonic()
        self._bold, self._dim, self._red, self._green, self._off = (
            ("\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[0m") if (out or sys.stdout).isatty() else ("",) * 5
        )

    def title(self, text: str) -> None:
        print(f"\n{self._bold}{text}{self._off}", file=self._out, flush=True)

    def say(self, text: str) -> None:
        print(f"  {self._dim}{time.monotonic() - self._began:5.1f} s{self._off}  {text}", file=self._out, flush=True)

    def text(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        widths = [max(len(str(line[column])) for line in (heads, *rows)) for column in range(len(heads))]
        for number, line in enumerate((heads, *rows)):
            text = "  ".join(str(cell).ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            print(f"      {self._dim if number == 0 else ''}{text}{self._off if number == 0 else ''}", file=self._out, flush=True)

    def check(self, what: str, found: object, expected: object) -> None:
        """Says whether *found* is *expected*; a difference makes the demo fail."""
        self.checks.append({"what": what, "found": found, "expected": expected, "ok": found == expected})
        if found == expected:
            print(f"      {self._green}ok{self._off}    {what}: {found}", file=self._out, flush=True)
        else:
            print(f"      {self._red}WRONG{self._off} {what}: {found}, expected {expected}", file=self._out, flush=True)
            self.failed.append(what)
