"""Shares of one long work in processes of their own, each a `python -m` of this module.

A process gets its share through its standard input and answers through its standard output. It ends when that input does, so none
outlives the process that started it, whatever ends that one.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from importlib import import_module
from typing import Any, Final

from landed.core.errors import LandedError
from landed_services.collecting import collect_rarely

Work = Callable[[Any, Callable[[int], None]], Any]
"""Does a share, says how far it is, and gives the result."""

_SAID: Final = "said"
_DONE: Final = "done"
_FAILED: Final = "failed"
_LOST: Final = "lost"
"""An error whose class cannot be made from what it says alone: told in words."""


class ShareFailed(LandedError):
    """A process ended without a result, or with an error that only it knows."""


def in_processes(work: str, shares: Sequence[Any], say: Callable[[int, int], None] | None = None) -> list[Any]:
    """Results of *work* for each of *shares*, done at the same time; a single one is done in this process.

    Args:
        work: `module:function` of a `Work`. Shares, results and errors can be pickled.
        say: told the number of a share and how far it is; called from several threads.

    Raises:
        ShareFailed: a process ended by itself. Else what the first one that failed raised; the others are ended.
    """
    told = say or (lambda _part, _done: None)
    if len(shares) == 1:
        return [_named(work)(shares[0], lambda done: told(0, done))]
    running: list[subprocess.Popen[bytes]] = []
    failed: list[BaseException] = []
    try:
        for _ in shares:
            command = [sys.executable, "-m", "landed_services.fanning", work]
            running.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        with ThreadPoolExecutor(len(shares)) as threads:

            def one(part: int) -> Any:
                try:
                    return _result(running[part], shares[part], lambda done: told(part, done))
                except BaseException as error:
                    failed.append(error)
                    _end(running)
                    raise

            futures = [threads.submit(one, part) for part in range(len(shares))]
            try:
                wait(futures)
            except BaseException:
                _end(running)
                raise
            if failed:
                raise failed[0]  # the others fail as well once they are ended: what they say is about that
            return [each.result() for each in futures]
    finally:
        _end(running)
        for process in running:
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def processes_for(offsets: int, of_one: int) -> int:
    """How many processes a reading of so many *offsets* is worth, where one is done with *of_one* before another is up."""
    return min(os.cpu_count() or 1, 1 + offsets // of_one)


def _result(process: subprocess.Popen[bytes], share: Any, say: Callable[[int], None]) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # one that has ended already is told of below
        pickle.dump(share, process.stdin)
        process.stdin.flush()
    while True:
        try:
            kind, value = pickle.load(process.stdout)
        except (EOFError, pickle.UnpicklingError):
            raise ShareFailed(f"a process that did a share of the work ended with code {process.wait()}") from None
        if kind == _SAID:
            say(value)
        elif kind == _DONE:
            return value
        elif kind == _FAILED:
            raise value
        else:
            raise ShareFailed(value)


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in running:
        assert process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            process.stdin.close()


def _named(work: str) -> Work:
    module, _, name = work.partition(":")
    found: Work = getattr(import_module(module), name)
    return found


def main() -> None:
    """One process: its share comes on standard input."""
    collect_rarely()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it
    # Nothing but answers may come out there.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # From the process that started this one, through a pipe that no other holds.
    try:
        share = pickle.load(sys.stdin.buffer)
    except EOFError:
        return

    def answer(kind: str, value: Any) -> None:
        pickle.dump((kind, value), answers)
        answers.flush()

    def watch() -> None:
        os.read(sys.stdin.fileno(), 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    try:
        result = _named(sys.argv[1])(share, lambda done: answer(_SAID, done))
    except LandedError as error:
        answer(_FAILED, error) if _is_portable(error) else answer(_LOST, f"{type(error).__name__}: {error}")
        return
    answer(_DONE, result)


def _is_portable(error: LandedError) -> bool:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True


if __name__ == "__main__":
    main()
