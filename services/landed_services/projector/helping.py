"""Processes that each fold a share of the log in a rebuild: `Helpers` starts them, each is a `python -m` of this module."""

import contextlib
import logging
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, Any

import structlog

from landed_services.collecting import collect_never
from landed_services.projector.refolding import Share, refold

_LOG: Any = structlog.wrap_logger(
    logging.getLogger("landed.projector"),
    processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
    wrapper_class=structlog.stdlib.BoundLogger,
)


class Helpers:
    """Started at once, so that they are up when their shares come. They end with this process, whatever ends it."""

    def __init__(self, count: int) -> None:
        command = [sys.executable, "-m", "landed_services.projector.helping"]
        self._running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)]
        self._listening: list[threading.Thread] = []

    def begin(self, shares: Sequence[Share], told: Callable[[int, int], None]) -> None:
        """Gives each process its share.

        Args:
            told: gets the number of a share and how many records of it are folded; called from other threads.
        """
        for process, share in zip(self._running, shares, strict=True):
            assert process.stdin is not None
            assert process.stdout is not None
            listening = threading.Thread(target=_listen, args=(process.stdout, share.index, told), daemon=True)
            self._listening.append(listening)
            listening.start()
            # One that has ended already is told of by `wait`.
            with contextlib.suppress(BrokenPipeError):
                pickle.dump(share, process.stdin)
                process.stdin.flush()

    def wait(self) -> None:
        """Waits until all have folded their shares. What one that fails leaves undone is left to the projector."""
        for process in self._running:
            if code := process.wait():
                _LOG.warning("a helper of the rebuild failed", action="rebuild_helper_failed", code=code)

    def close(self) -> None:
        """Has those that still fold end after the transaction at hand."""
        for process in self._running:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        for process in self._running:
            process.wait()
        for listening in self._listening:
            listening.join()
        for process in self._running:
            assert process.stdout is not None
            process.stdout.close()


def _listen(said: IO[bytes], index: int, told: Callable[[int, int], None]) -> None:
    for line in said:
        if line.strip().isdigit():
            told(index, int(line))


def main() -> None:
    """A helper: its share comes on standard input, whose end asks it to end."""
    collect_never()
    # From the process that started this one, through a pipe that no other holds.
    try:
        share: Share = pickle.load(sys.stdin.buffer)
    except EOFError:
        return  # it had no need of this one, or has ended
    stop = threading.Event()

    def watch() -> None:
        # Not through the buffer, whose lock would be held at the end of the process.
        os.read(sys.stdin.fileno(), 1)
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    refold(share, stop, told=lambda records: print(records, flush=True))


if __name__ == "__main__":
    main()
