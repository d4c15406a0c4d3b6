"""The product's side: embedded Kafka and PostgreSQL, a projector, reconcilers as processes, and what people do, as JSON lines.

`python -m bench.irrevon.stage FOLDER PROVIDER_URL`. The first line that it prints says how agents are started; then it answers
each line `{"do": …}` with one. Everything ends when its standard input is closed.
"""

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from demo.stage import PARTITIONS, service, wait_for_projector

from bench.irrevon.asked import PROVIDER_URL
from bench.ledger import new_place
from landed.adapters.embedded import EmbeddedError, embedded, to_stderr
from landed.adapters.kafka import KafkaEventLog
from landed.adapters.postgres import connect
from landed.core.policy import ToolPolicy, policy_json
from landed.core.vocabulary import Decision
from landed_services.people import approvals
from landed_services.people.errors import DecisionRefused, NotThere
from landed_services.people.policies import set_policy
from landed_services.people.unwinding import unwind
from landed_services.queries.groups import group_named
from landed_services.queries.log import read_entries
from landed_services.queries.timeline import timeline

APPROVAL_LIFETIME_S: Final = 3.0
"""Short, since a trial waits until one has lapsed. One that lapses too early on a busy machine is asked for anew."""
SEEN_WITHIN_S: Final = 30.0
RECONCILER: Final = ("reconciler", "--tools", "bench.irrevon.tools:registry")


class Stage:
    """What is up, and what is done with it. Every public method is a command; it answers with JSON."""

    def __init__(self, folder: Path, provider_url: str, stack: contextlib.ExitStack) -> None:
        self._folder = folder
        data = stack.enter_context(tempfile.TemporaryDirectory(prefix="landed-bench-irrevon-"))
        running = stack.enter_context(embedded(data, wipe=True, progress=to_stderr))
        self.database_url = running.database_url
        self._place = new_place(running.bootstrap, running.database_url, partitions=PARTITIONS)
        self.environment = {**self._place.environment(), PROVIDER_URL: provider_url, "LANDED_WORKER": "agent"}
        self._reconcilers = stack.enter_context(contextlib.ExitStack())
        self._processes: dict[int, Any] = {}
        stack.enter_context(service(("projector",), self.environment, folder))
        wait_for_projector(self._place.view, folder)
        self._log = KafkaEventLog(self._place.log)
        stack.callback(self._log.close)
        self._connection = stack.enter_context(connect(self._place.view))

    def reconcilers(self, count: int) -> list[int]:
        """Ends those that run and starts *count* new ones; their process ids."""
        self._reconcilers.close()
        self._processes = {}
        for number in range(1, count + 1):
            process = self._reconcilers.enter_context(
                service(RECONCILER, self.environment, self._folder / f"reconciler-{number}")
            )
            self._processes[process.pid] = process
        return list(self._processes)

    def kill(self, pid: int) -> int:
        """kill -9 of a reconciler of this stage, by its handle; the exit code."""
        process = self._processes[pid]
        process.kill()
        return int(process.wait(30))

    def tenant(self, tenant: str, observe: bool) -> None:
        """A new tenant, each request of which needs an approval; or, to *observe*, nothing of which is refused."""
        rule = policy_json(
            ToolPolicy(observe=True) if observe else ToolPolicy(approval=True, approval_lifetime=APPROVAL_LIFETIME_S)
        )
        set_policy(self._log, self._connection, tenant, "tool:*", rule, who="bench", why="each trial has an authority")

    def approve(self, tenant: str, operation_id: str, by: str) -> int | None:
        """Until when the approval is good, milliseconds since the epoch, UTC; None: the request for it has lapsed already."""
        known, approval = self._asked_for(tenant, operation_id)
        try:
            allow = Decision.ALLOW
            given = approvals.decide(self._log, self._connection, known, approval, allow, approver=by, reason="bench")
        except DecisionRefused:
            return None
        return given.expires_at_ms

    def unwind(self, tenant: str, group: str, by: str) -> None:
        known = group_named(self._connection, tenant, group)
        unwind(self._log, self._connection, known, by=by, reason="the branch is cancelled")

    def told(self, tenant: str, operation_id: str) -> list[str]:
        """Names of the accepted events of an operation, in log order."""
        of_tenant = [one for one in read_entries(self._place.log, operation_id) if one.event.tenant_id == tenant]
        return [row.event for row in timeline(of_tenant, operation_id)[0] if row.accepted]

    def _asked_for(self, tenant: str, operation_id: str) -> Any:
        """The view shows a request for approval a moment after the claim was refused for want of it."""
        deadline = time.monotonic() + SEEN_WITHIN_S
        while True:
            try:
                return approvals.approval_named(self._connection, tenant, operation_id)
            except NotThere:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


def main() -> int:
    folder, provider_url = Path(sys.argv[1]), sys.argv[2]
    try:
        with contextlib.ExitStack() as stack:
            stage = Stage(folder, provider_url, stack)
            commands: dict[str, Callable[..., Any]] = {
                name: getattr(stage, name) for name in ("reconcilers", "kill", "tenant", "approve", "unwind", "told")
            }
            own = {name: value for name, value in stage.environment.items() if os.environ.get(name) != value}
            say({"environment": own, "python": sys.executable, "database_url": stage.database_url})
            for line in sys.stdin:
                asked = json.loads(line)
                try:
                    said: dict[str, Any] = {"answer": commands[asked.pop("do")](**asked)}
                except Exception as error:
                    said = {"error": f"{type(error).__name__}: {error}"}
                say(said)
    except EmbeddedError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    sys.exit(main())
