"""One part of the case study: a tenant with its trip, what people ask the ledger about it, and the provider's records."""

import contextlib
import io
import os
import textwrap
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from demo.case_study import tools
from demo.screen import Screen
from demo.stage import Stage
from landed import Confirmed, Ledger, Result, ToolRegistry
from landed.adapters.postgres import connect, load_routes
from landed.core.state import Route
from landed_services.cli._app import run

CARD, DECLINED_CARD = "4000000000000077", "4000000000000002"
AMOUNT = 48_000
ANYBODY_WITHIN_A_DAY = {"engine": "rules", "rules": [{"id": "within-a-day", "max_age": 86_400}]}


class CommandError(Exception):
    """A command of the script did not work."""


class Watched:
    """A group of a tenant, as the people of that tenant see it, beside the provider's own records."""

    def __init__(self, screen: Screen, stage: Stage, registry: ToolRegistry, *, tenant: str, group_id: str) -> None:
        self.screen, self.stage, self.registry = screen, stage, registry
        self.tenant, self.group_id = tenant, group_id
        os.environ["LANDED_TENANT"] = tenant

    def tool(self, name: str) -> Any:
        found = self.registry.tool(name)
        assert found is not None, name
        return found

    def reads(self, *words: str) -> Any:
        """The JSON of a `landed` command."""
        return msgspec.json.decode(_output(*words, "-o", "json"))

    def route(self) -> Route:
        key = (self.tenant, self.group_id)
        with connect(self.stage.view) as connection:
            return load_routes(connection, [key])[key].route

    def until(self, what: str, holds: Callable[[Route], bool], *, timeout_s: float = 60.0) -> Route:
        """The group once it *holds*; after *timeout_s* that it does not is a wrong count."""
        deadline = time.monotonic() + timeout_s
        while not holds(route := self.route()) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.screen.check(what, holds(route), True)
        return route

    def all_records(self) -> list[dict[str, Any]]:
        """The provider's own records, oldest first; asked for directly, not through the proxy."""
        found: list[dict[str, Any]] = tools.ask("GET", "/records", url=self.stage.provider.url)["data"]
        return found


class Scene(Watched):
    """A trip of the tenant *name*, whose id is *name* too."""

    def __init__(self, screen: Screen, stage: Stage, stack: contextlib.ExitStack, name: str) -> None:
        super().__init__(screen, stage, tools.registry, tenant=name, group_id=name)
        self.name, self._stack = name, stack
        self.ledger = self.another("agent")
        self.policy("compensation", ANYBODY_WITHIN_A_DAY, "whoever undoes a trip does it within a day")

    def another(self, worker: str) -> Ledger:
        """One more caller, with a connection of its own."""
        return self._stack.enter_context(Ledger.connect(tenant=self.name, worker=worker, wait=60.0))

    # ---- the agent ------------------------------------------------------------------------------------------------------

    def id(self, step: str) -> str:
        return f"{self.name}:{step}"

    def books(self, *steps: str) -> None:
        """The agent goes through *steps*, each of which has to work."""
        self.group = self.ledger.group(self.name, workflow_type="trip")
        for step in steps:
            tool = self.tool("send_email" if step == "email" else f"book_{step}")
            result = self.group.perform(tool, operation_id=self.id(step), trip=self.name)
            reference = result.reference if isinstance(result, Confirmed) else result
            self.screen.say(f"{tool.name}: {type(result).__name__}, {reference}")
            self.screen.check(step, type(result).__name__, "Confirmed")

    def pays(self, card: str) -> Result:
        return self.group.perform(tools.charge_card, operation_id=self.id("payment"), trip=self.name, amount=AMOUNT, card=card)

    # ---- people ---------------------------------------------------------------------------------------------------------

    def shows(self, *words: str) -> None:
        """A `landed` command and what it prints."""
        self.screen.say("$ landed " + " ".join(words))
        self.screen.text(textwrap.indent(_output(*words).rstrip(), "      "))

    def policy(self, key: str, value: object, why: str) -> None:
        self.reads("policies", "set", key, msgspec.json.encode(value).decode(), "--why", why, "--yes")
        self.screen.say(f"policy {key} of tenant {self.name}: {msgspec.json.encode(value).decode()}")

    # ---- what is so -----------------------------------------------------------------------------------------------------

    def states(self, *steps: str) -> dict[str, str]:
        route = self.route()
        return {step: str(route.operation(self.id(step)).state) for step in steps}

    def plan(self) -> Any:
        return self.reads("plan", self.name)

    def steps_of(self, plan: Any) -> list[str]:
        """The plan's steps, the first one first."""
        return [one["operation_id"].removeprefix(f"{self.name}:") for one in sorted(plan["steps"], key=lambda one: one["order"])]

    def records(self) -> list[dict[str, Any]]:
        """The provider's own records of the trip, oldest first."""
        return [one for one in self.all_records() if one["operation_id"].removeprefix("compensate:").startswith(f"{self.name}:")]

    def provider_has(self, kinds: Sequence[str]) -> None:
        """Shows the provider's records; checks that they are exactly *kinds*, in this order."""
        found = self.records()
        rows = [(one["id"], one["operation_id"], one.get("undoes", "")) for one in found]
        self.screen.table(("provider's record", "operation", "undoes"), rows)
        self.screen.check("the provider's records", [one["kind"] for one in found], list(kinds))


def switch(stage: Stage, what: str, *, on: bool) -> None:
    """Has the provider answer questions about single operations (`look-ups`) or cancel (`cancellations`), or wait with it."""
    tools.ask("POST", f"/{what}/{'on' if on else 'off'}", url=stage.provider.url)


def _output(*words: str) -> str:
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        code = run(words)
    if code != 0:
        raise CommandError(f"landed {' '.join(words)}: exit code {code}: {said.getvalue().strip()}")
    return out.getvalue()
