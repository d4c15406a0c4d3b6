"""What the tests of the embedded servers share: folders made ready once, processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from landed.adapters.embedded import down, embedded

from .support import copy_folder


@pytest.fixture(scope="session")
def prepared_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder whose servers ran once and are down: copying it saves formatting and initialising again."""
    folder = tmp_path_factory.mktemp("prepared") / "data"
    with embedded(folder):
        pass
    yield folder
    down(folder, wipe=True)


@pytest.fixture
def folder(prepared_folder: Path, tmp_path: Path) -> Iterator[Path]:
    """A data folder of the test's own, made ready, nothing running; whatever runs in it at the end is ended."""
    copy = tmp_path / "data"
    copy_folder(prepared_folder, copy)
    yield copy
    down(copy, wipe=True)


@pytest.fixture
def script() -> Callable[..., subprocess.Popen[str]]:
    """Start Python code in a process of its own; its output is read as text."""

    def start(code: str, *arguments: object, prefix: tuple[str, ...] = (), **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*prefix, sys.executable, "-c", code, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    return start
