"""CPU time of the processes that take part, as the kernel counts it (user and system, in seconds)."""

import os
from collections.abc import Mapping
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def children(root: int) -> list[int]:
    """*root* and all that descend from it."""
    found = [root]
    for pid in found:
        for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found += [int(one) for one in tasks.read_text().split()]
            except OSError:
                continue
    return found


def seconds(pids: list[int]) -> float:
    """CPU time of *pids*, and of their children that ended and were waited for."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(one) for one in fields[11:15])
    return total / _TICKS


class Meter:
    """CPU per operation of named process trees, between `start` and `per_operation`."""

    def __init__(self, roots: Mapping[str, int]) -> None:
        self._roots = roots
        self._before: dict[str, float] = {}

    def _now(self) -> dict[str, float]:
        # Of this process only itself: the servers are its children and are counted by their own names.
        return {name: seconds([pid] if pid == os.getpid() else children(pid)) for name, pid in self._roots.items()}

    def start(self) -> None:
        self._before = self._now()

    def per_operation(self, operations: int) -> dict[str, float]:
        """Milliseconds of CPU per operation, by name."""
        return {name: (now - self._before[name]) * 1000 / operations for name, now in self._now().items()}
