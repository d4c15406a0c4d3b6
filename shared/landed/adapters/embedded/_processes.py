"""Processes: who is who, starting them tied to an owner or on their own, ending them.

A pid is never signalled without its start time having been checked, through a handle of the process where the kernel
has them, so that a process which merely got the old number is left alone.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from . import _guard


class Identity(msgspec.Struct, frozen=True):
    """A process for good: its pid and its start time (opaque; differs between boots)."""

    pid: int
    started: str


class Child(msgspec.Struct, frozen=True):
    """A server that was started here; ``handle`` is what this process must reap, None for one in the background."""

    identity: Identity
    handle: subprocess.Popen[bytes] | None = None


def identify(pid: int) -> Identity | None:
    """The process that has *pid* now; None when there is none or only its unreaped rest."""
    if pid <= 0:
        return None
    started = _started_linux(pid) if sys.platform == "linux" else _started_elsewhere(pid)
    return None if started is None else Identity(pid, started)


def alive(identity: Identity | None) -> bool:
    """Whether that very process still runs."""
    return identity is not None and identify(identity.pid) == identity


def this_process() -> Identity:
    """The identity of the caller."""
    identity = identify(os.getpid())
    assert identity is not None
    return identity


def spawn(
    command: Sequence[str],
    *,
    run_as: Sequence[str] = (),
    cwd: Path,
    log: Path,
    environment: Mapping[str, str],
    tied: bool,
    ending: signal.Signals,
) -> Child:
    """Start a server; its output is appended to *log*.

    Args:
        run_as: command words that change the account and then run what follows.
        tied: the server gets *ending* when this process ends in whatever way; else it outlives it.
        ending: the signal that ends this server at once.
    """
    with log.open("ab") as output:
        if not tied:
            return _spawn_background([*run_as, *command], cwd, output.fileno(), environment)
        kernel = _tie_by_kernel(ending)
        if kernel and threading.current_thread() is threading.main_thread():
            # The signal is bound to the thread that starts the server; the main one lives as long as the process.
            words = [*run_as, *kernel, str(os.getpid()), *command]
            handle = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=cwd,
                env=environment,
                start_new_session=True,
            )
            return Child(_identity_of(handle), handle)
        return _spawn_guarded([*run_as, *command], cwd, output.fileno(), environment, ending)


def stop(child: Child, gentle: signal.Signals, *, patience_seconds: float) -> None:
    """End a server: *gentle* first, SIGKILL after *patience_seconds*. Ended already is fine."""
    _signal(child.identity, gentle)
    if not _wait_for_end(child, patience_seconds):
        _signal(child.identity, signal.SIGKILL)
        _wait_for_end(child, 10)
    if child.handle is not None:
        child.handle.wait(timeout=10)
        if child.handle.stdin is not None:
            child.handle.stdin.close()


def exited(child: Child) -> bool:
    """Whether the server has ended; reaps it when it was this process's child."""
    if child.handle is not None and child.handle.poll() is not None:
        return True
    return not alive(child.identity)


def find(program: str, word: str) -> tuple[Identity, ...]:
    """Running processes of *program* that have *word* among the words of their command line."""
    found = (identify(pid) for pid, words in _command_lines() if Path(words[0]).name == program and word in words)
    return tuple(identity for identity in found if identity is not None)


def run(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], timeout_seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run a short command to its end, capturing both outputs as one; a timeout is an exit code of its own (124)."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=cwd,
            env=environment,
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, f"no end after {timeout_seconds:.0f} s")
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, str(error))


def _identity_of(handle: subprocess.Popen[bytes]) -> Identity:
    # A child that failed at once is a zombie until reaped: it has no identity any more, and an empty one fits nobody.
    return identify(handle.pid) or Identity(handle.pid, "")


def _spawn_background(command: list[str], cwd: Path, output: int, environment: Mapping[str, str]) -> Child:
    # The shell ends at once, so the server is adopted by init: nobody here has to reap it.
    starter = subprocess.run(
        ["sh", "-c", '"$@" >&2 & echo $!', "sh", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=output,
        cwd=cwd,
        env=environment,
        start_new_session=True,
        check=True,
    )
    pid = int(starter.stdout)
    return Child(identify(pid) or Identity(pid, ""))


def _spawn_guarded(command: list[str], cwd: Path, output: int, environment: Mapping[str, str], ending: signal.Signals) -> Child:
    guard = [sys.executable, "-I", "-S", str(Path(_guard.__file__).resolve()), str(os.getpid()), str(int(ending))]
    handle = subprocess.Popen(
        [*guard, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=output,
        cwd=cwd,
        env=environment,
        start_new_session=True,
    )
    assert handle.stdout is not None
    with handle.stdout as report:
        line = report.readline()
    pid = int(line) if line else 0
    return Child(identify(pid) or Identity(pid, ""), handle)


def tied_by_kernel() -> bool:
    """Whether the kernel ends servers with their owner; else a guard process does."""
    return bool(_tie_by_kernel(signal.SIGKILL))


@functools.cache
def _tie_by_kernel(ending: signal.Signals) -> tuple[str, ...]:
    """Command words that ask the kernel to signal what follows when its parent ends; empty where there is no such."""
    setpriv = shutil.which("setpriv")
    if sys.platform != "linux" or setpriv is None:
        return ()
    words = (setpriv, "--pdeathsig", ending.name.removeprefix("SIG"))
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode != 0:
        return ()
    # The owner may have died before the kernel was asked: then the parent is another one and nothing is started.
    return (*words, "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"')


def _signal(identity: Identity, sign: signal.Signals) -> None:
    """Signal exactly this process; it having ended is fine."""
    try:
        if not hasattr(os, "pidfd_open"):
            if alive(identity):
                os.kill(identity.pid, sign)
            return
        descriptor = os.pidfd_open(identity.pid)
        try:
            if alive(identity):
                signal.pidfd_send_signal(descriptor, sign)
        finally:
            os.close(descriptor)
    except ProcessLookupError:
        pass


def _wait_for_end(child: Child, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not exited(child):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _started_linux(pid: int) -> str | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" and not _threads_left(pid) else f"{_boot()}:{fields[19]}"


def _threads_left(pid: int) -> bool:
    # A killed process counts as dead while its last threads still hold its ports and locks: then it is not over yet.
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


@functools.cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]


def _started_elsewhere(pid: int) -> str | None:
    ps = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    status, _, started = ps.stdout.strip().partition(" ")
    return None if not status or status.startswith("Z") else started.strip()


def _command_lines() -> Iterator[tuple[int, list[str]]]:
    if sys.platform == "linux":
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().decode("utf-8", "surrogateescape").split("\0")
                except OSError:
                    continue
                yield int(entry.name), words
        return
    ps = subprocess.run(["ps", "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=False)
    for line in ps.stdout.splitlines():
        pid, _, command = line.strip().partition(" ")
        yield int(pid), command.split()
