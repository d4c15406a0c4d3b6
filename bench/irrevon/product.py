"""The product's processes as the harness holds them: the stage, and an agent for each tenant, asked by JSON lines.

Every process goes when this one does, however it ends: their standard input is closed then.
"""

import json
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.irrevon.bridge import Bridge
from bench.irrevon.play import AgentDied, Answer, Call

ROOT: Final = Path(__file__).resolve().parents[2]
ENDS_WITHIN_S: Final = 60.0


class StageFailed(Exception):
    """The product's side did not start, or could not do what it was asked."""


class _Lines:
    """A child process that answers each JSON line with one."""

    def __init__(self, words: Sequence[str], environment: dict[str, str]) -> None:
        # A session of its own: an interrupt from the keyboard is for the harness, which then ends them in order.
        self._process = subprocess.Popen(
            words, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._lock = threading.Lock()

    def read(self) -> Any:
        """The next line; None: it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None

    def ask(self, what: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        with self._lock:
            try:
                self._process.stdin.write(json.dumps(what) + "\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                return None
            return self.read()

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        """Has it end in order; kills it when it does not."""
        try:
            self._process.communicate(timeout=ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Stage:
    """The product's side; see `stage.py` for its commands."""

    def __init__(self, python: Path, folder: Path, bridge: Bridge) -> None:
        self._lines = _Lines([str(python), "-m", "bench.irrevon.stage", str(folder), bridge.url], dict(os.environ))
        first = self._lines.read()
        if first is None:
            self._lines.end()
            raise StageFailed(f"the product did not start; its log: {folder}")
        self.python: str = first["python"]
        self.database_url: str = first["database_url"]
        self.environment: dict[str, str] = {**os.environ, **first["environment"]}

    def ask(self, command: str, **about: Any) -> Any:
        said = self._lines.ask({"do": command, **about})
        if said is None or "error" in said:
            raise StageFailed(f"{command}: {'the stage has ended' if said is None else said['error']}")
        return said["answer"]

    def end(self) -> None:
        self._lines.end()


class Agent:
    """The agent's process; where it was killed, another one."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._killed = False
        self._lines = self._started()

    def _started(self) -> _Lines:
        lines = _Lines([self._stage.python, "-m", "bench.irrevon.agent"], self._stage.environment)
        if lines.read() is None:
            lines.end()
            raise StageFailed("an agent did not start")
        return lines

    def ask(self, **call: Any) -> Any:
        """Raises AgentDied: it was killed meanwhile; there is another one now. StageFailed: it ended by itself."""
        said = self._lines.ask(call)
        if said is not None:
            return said
        self._lines.end()
        if not self._killed:
            raise StageFailed("an agent ended by itself; what it said stands above")
        self._killed = False
        self._lines = self._started()
        raise AgentDied

    def kill(self) -> None:
        self._killed = True
        self._lines.kill()

    def end(self) -> None:
        self._lines.end()


class Tenant:
    """One unit's ledger: a tenant of its own."""

    def __init__(self, stage: Stage, bridge: Bridge, agent: Agent, name: str, *, observe: bool) -> None:
        self.name = name
        self._stage, self._bridge, self._agent = stage, bridge, agent
        stage.ask("tenant", tenant=name, observe=observe)

    def perform(self, call: Call, *, times: int = 1) -> Sequence[Answer]:
        asked = {"tool": call.tool, "arguments": dict(call.arguments), "group": call.group, "times": times}
        said = self._agent.ask(tenant=self.name, **asked)
        return [Answer(one["result"], one["operation_id"], one.get("reason")) for one in said]

    def kill_caller(self) -> None:
        def kill() -> bool:
            self._bridge.on_sent = lambda: False
            self._agent.kill()
            return True

        self._bridge.on_sent = kill

    def approve(self, operation_id: str, by: str) -> int | None:
        until_ms: int | None = self._stage.ask("approve", tenant=self.name, operation_id=operation_id, by=by)
        return until_ms

    def cancel(self, group: str) -> None:
        self._stage.ask("unwind", tenant=self.name, group=group, by="workflow")

    def sent(self, operation_id: str) -> bool:
        """Whether any request of the operation reached the destination."""
        return self._bridge.sent[self.name, operation_id] > 0

    def told(self, operation_id: str) -> list[str]:
        """Names of the accepted events of an operation, in log order."""
        found: list[str] = self._stage.ask("told", tenant=self.name, operation_id=operation_id)
        return found


class Reconcilers:
    """Those that run, and the one that is killed: whichever makes the first look once `kill_next` was said."""

    def __init__(self, stage: Stage, bridge: Bridge, count: int) -> None:
        self._stage, self._bridge = stage, bridge
        self.pids: list[int] = stage.ask("reconcilers", count=count)
        self.killed: int | None = None
        self.looks_until_killed: dict[int, int] = {}

    def kill_next(self) -> None:
        lock = threading.Lock()

        def kill(pid: int) -> bool:
            with lock:
                if self.killed is None and pid in self.pids:
                    self.killed = pid
                    self.looks_until_killed = self.looks()
                    self._stage.ask("kill", pid=pid)
                return pid == self.killed

        self._bridge.on_look = kill

    def looks(self) -> dict[int, int]:
        return {pid: self._bridge.looks[pid] for pid in self.pids}

    def end(self) -> None:
        self._bridge.on_look = lambda pid: False
        self._stage.ask("reconcilers", count=0)
