"""What people do in a case: policies that operators set, decisions of reviewers, groups that are undone."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from landed.core import events as ev
from landed.core.authorization import Rule, Rules
from landed.core.policy import Ceiling, PolicyValue, ToolPolicy, policy_json, policy_route
from landed.core.state import COMPENSATE, Approval, Operation
from landed.core.surge import Grant
from landed.core.vocabulary import Choice, Decision, ForwardOutcome, GroupState
from landed.sdk.intent import hash_of, intent_of
from landed.testing.cases.identity import group_opened
from landed.testing.cases.loading import Step
from landed.testing.cases.world import TENANT, Known, World
from landed.wire.ids import with_event_id

PRESENTS: Final = frozenset({"call", "call_many", "call_again", "rewrite_args"})
OPERATOR: Final = "operator"
REVIEWER: Final = "reviewer"
_UNDO_ALLOWED: Final = Rules(rules=(Rule(id="undo", forward_status=tuple(ForwardOutcome)),))
"""Undo is allowed by default."""
_LIFETIME_MAX_S: Final = 30 * 86_400.0
_WAIT_MAX_S: Final = 86_400.0


class People:
    """Operators and reviewers of one case."""

    def __init__(self, world: World, identify: Callable[[str], Known]) -> None:
        """
        Args:
            identify: who an operation is that nobody has presented yet, by its name in the case.
        """
        self._world = world
        self._identify = identify
        self._policy_version: dict[str, str] = {}

    # ---- policies -----------------------------------------------------------------------------------------------------

    def declare(self) -> None:
        """The policies that stand before the story begins: approvals and ceilings, for every tenant in it."""
        for tenant_id in self._tenants():
            ceilings: dict[str, list[Ceiling]] = {}
            for tool, declared in self._world.case.contracts.items():
                if declared.get("needs_approval"):
                    self._set(tenant_id, f"tool:{tool}", _approval_policy(declared))
                for said in declared.get("ceilings", ()):
                    ceilings.setdefault(_ceiling_key(tool, said), []).append(_ceiling(said))
            for key, several in ceilings.items():
                self._set(tenant_id, key, tuple(several))
            if any("undo" in declared for declared in self._world.case.contracts.values()):
                self._set(tenant_id, "compensation", _UNDO_ALLOWED)

    def _tenants(self) -> list[str]:
        return list(dict.fromkeys([TENANT, *(step.get("tenant", TENANT) for step in self._world.case.steps)]))

    def _set(self, tenant_id: str, key: str, value: PolicyValue | Rules) -> None:
        route = self._world.ledger.route(policy_route(key), tenant=tenant_id)
        event = ev.PolicyChanged(
            event_id="",
            tenant_id=tenant_id,
            route=policy_route(key),
            actor=OPERATOR,
            seen_version=route.version,
            scope=key,
            old=route.policy,
            new=policy_json(value),
            who=OPERATOR,
            why="as the case says",
        )
        self._world.append(with_event_id(event))

    def in_force(self, step: Step) -> None:
        """Another version of the policy is in force from this step on."""
        version, tool = step.get("policy"), self._tool(step)
        if version is None or tool is None:
            return
        before, self._policy_version[tool] = self._policy_version.get(tool), version
        if before not in (None, version):
            self._set(step.get("tenant", TENANT), f"tool:{tool}", _approval_policy(self._world.declared(tool)))

    def with_approval_until(self, step: Step, present: Callable[[], None]) -> None:
        """Presents a call; the approval that it asks for expires when the step says."""
        expires_at, tool = step.get("expires_at"), step.get("tool")
        usual = _approval_policy(self._world.declared(tool))
        if not isinstance(expires_at, int | float) or not usual.approval:
            return present()
        lifetime_s = min(max(float(expires_at) - self._world.timeline.now_s, 0.001), _LIFETIME_MAX_S)
        tenant_id, key = step.get("tenant", TENANT), f"tool:{tool}"
        self._set(tenant_id, key, replace(usual, approval_lifetime=lifetime_s))
        present()
        self._set(tenant_id, key, usual)
        return None

    def _tool(self, step: Step) -> str | None:
        known = self._world.find(step.get("op"))
        found: str | None = step.get("tool", known.tool if known is not None else None)
        return found

    def upgrade(self, step: Step) -> None:
        """Another version of a tool: what was approved for the one before it is to be approved anew."""
        tool = step.get("tool")
        if tool is not None:
            self._set(step.get("tenant", TENANT), f"tool:{tool}", _approval_policy(self._world.declared(tool)))

    def disable_tool(self, step: Step) -> None:
        policy = replace(_approval_policy(self._world.declared(step.get("tool"))), disabled=True)
        self._set(step.get("tenant", TENANT), f"tool:{step.get('tool')}", policy)

    def set_count(self, step: Step) -> None:
        """So many grants of the tool are in the window, whatever was counted before."""
        tenant_id, tool, now_ms = step.get("tenant", TENANT), step.get("tool"), self._world.timeline.now_ms()
        grants = self._world.ledger.tables.grants
        counted = [one for one in grants if (one.tenant_id, one.effect_type) == (tenant_id, tool)]
        wanted = int(step.get("value"))
        for gone in counted[: max(0, len(counted) - wanted)]:
            grants.remove(gone)
        grants.extend(
            Grant(
                tenant_id=tenant_id,
                route="earlier",
                operation_id=f"earlier-{number}",
                attempt=1,
                effect_type=tool,
                at_ms=now_ms,
            )
            for number in range(len(counted), wanted)
        )

    # ---- people -------------------------------------------------------------------------------------------------------

    def unwind(self, step: Step) -> None:
        """Asks for a group to be undone; an operation without a group is one of its own."""
        tenant_id, route, group_id = self._group(step)
        if group_id is not None and self._world.ledger.route(route, tenant=tenant_id).group_state is GroupState.NONE:
            # The run that names it has begun, whether or not it has performed anything yet.
            self._world.append(group_opened(tenant_id, group_id))
        inputs = None
        if step.get("inputs") is not None:
            forwards = self._world.ledger.route(route, tenant=tenant_id).operations.values()
            inputs = msgspec.json.encode({op.operation_id: step.get("inputs") for op in forwards if op.compensation}).decode()
        reason = step.get("reason") or step.get("cause") or step.do
        event = ev.UnwindRequested(
            event_id="",
            tenant_id=tenant_id,
            route=route,
            group_id=group_id,
            actor=step.get("by", step.actor),
            seen_version=self._world.ledger.route(route, tenant=tenant_id).version,
            reason=reason,
            by=step.get("by", step.actor),
            inputs=inputs,
        )
        self._world.append(with_event_id(event))

    def _group(self, step: Step) -> tuple[str, str, str | None]:
        group, op = step.get("group"), step.get("op")
        if group is not None:
            known = next((one for one in self._world.known.values() if one.group_id == group), None)
            alone = self._world.find(group) if known is None else None
            if alone is not None:  # an operation without a group is one of its own
                return alone.tenant_id, alone.route, alone.group_id
            return (known.tenant_id if known is not None else step.get("tenant", TENANT)), group, group
        known = self._world.find(op) or self._identify(str(op))
        return known.tenant_id, known.route, known.group_id

    def decide(self, step: Step, decision: Decision) -> None:
        """A person answers what was asked: an approval, else the open review."""
        known = self._world.find(step.get("op"))
        operation = None if known is None else self._world.operation(known)
        asked = self._asked(step, known, operation) if known is not None and operation is not None else None
        if asked is None and str(step.get("op")).startswith(COMPENSATE):
            return self._about_inverse(step, decision)
        if known is None or operation is None:
            self._world.notes.append(f"{step.at:g} s: {step.do}: nothing was asked about {step.get('op')}")
            return None
        if asked is None:
            return self._review(step, known, operation, decision)
        expires_at = step.get("expires_at")
        until_ms = asked.expires_at_ms
        if isinstance(expires_at, int | float):
            until_ms = self._world.timeline.epoch_ms + round(float(expires_at) * 1000)
        event = ev.ApprovalDecided(
            event_id="",
            **self._envelope(known, step, operation),
            policy_version=self._policy(known),
            approval_id=asked.approval_id,
            request_hash=self._seen_hash(step, known) or asked.request_hash,
            decision=decision,
            approver=step.get("by", REVIEWER),
            reason=step.get("reason", step.do),
            expires_at_ms=until_ms,
        )
        self._world.append(with_event_id(event))
        return None

    def _asked(self, step: Step, known: Known, operation: Operation) -> Approval | None:
        """What the person was asked: by the newest presentation, not by a caller who hears that the time for an answer is over
        and asks anew by itself."""
        if not operation.approvals:
            return None
        presented_s = [
            one.at + one.get("precheck_s", 0.0)
            for one in self._world.case.steps
            if one.at <= step.at and known.op in one.ops and one.do in PRESENTS
        ]
        last_ms = self._world.timeline.epoch_ms + round(max(presented_s, default=0.0) * 1000)
        made = {
            entry.event.approval_id: entry.at_ms
            for entry in self._world.ledger.entries()
            if isinstance(entry.event, ev.ApprovalRequested)
        }
        before = [one for one in operation.approvals if made.get(one.approval_id, 0) <= last_ms]
        return (before or list(operation.approvals))[-1]

    def _policy(self, known: Known) -> str | None:
        return self._world.ledger.tables.policies(known.tenant_id).rules(known.tool).version

    def _seen_hash(self, step: Step, known: Known) -> str | None:
        """The request that the person was shown, where the story says which."""
        seen = step.get("seen")
        if not isinstance(seen, Mapping):
            return None
        return hash_of(intent_of(self._world.contract(known.tool), {**known.arguments, **seen}, operation_id="seen"))

    def _review(self, step: Step, known: Known, operation: Operation, decision: Decision) -> None:
        if operation.review is None:
            self._world.notes.append(f"{step.at:g} s: {step.do}: nothing was asked about {known.op}")
            return
        choice = Choice.CONFIRMED if decision is Decision.ALLOW else Choice.CANCELLED
        self._decided(step, known, operation, choice)

    def _about_inverse(self, step: Step, decision: Decision) -> None:
        """An inverse that needs a person: it runs, or the effect is kept. The task is held by what it undoes (§8)."""
        forward = self._world.find(str(step.get("op")).removeprefix(COMPENSATE))
        if forward is None:
            self._world.notes.append(f"{step.at:g} s: {step.do}: nothing was asked about {step.get('op')}")
            return
        choice = Choice.COMPENSATING if decision is Decision.ALLOW else Choice.KEPT
        self._decided(step, forward, self._world.operation(forward), choice)

    def override(self, step: Step) -> None:
        """A named person decides what is open about an operation, or about all of a group, as the step says; without a word, that
        one attempt more may be made. About a tool: its ceilings are set to the value, lifted without one, and it is on again."""
        if not step.ops and step.get("group") is None:
            return self._override_tool(step)
        words = [step.get(name) for name in ("decision", "value", "result", "status", "event") if name in step.fields]
        said = str(words[0]) if words else str(Choice.NOT_FOUND)
        said, verdict = _CHOICES.get(said, said), _VERDICTS.get(said)
        ops = step.ops or tuple(known.op for known in self._world.known.values() if known.group_id == step.get("group"))
        for known in filter(None, map(self._world.find, ops)):
            operation = self._world.operation(known)
            if verdict is not None and operation.review is None and operation.approvals:
                self.decide(msgspec.structs.replace(step, fields={**step.fields, "op": known.op}), verdict)
            elif said in set(Choice):
                self._decided(step, known, operation, Choice(said))
            else:
                self._world.notes.append(f"{step.at:g} s: override: {said!r} of {known.op} is no choice of a review: refused")
        return None

    def _override_tool(self, step: Step) -> None:
        tenant_id, tool, value = step.get("tenant", TENANT), step.get("tool"), step.get("value")
        if tool is None:
            self._world.notes.append(f"{step.at:g} s: override: of what is told in prose")
            return
        self._set(tenant_id, f"tool:{tool}", _approval_policy(self._world.declared(tool)))
        for key in (f"ceiling:{tool}", "ceiling:*"):
            said = [one for one in self._world.declared(tool).get("ceilings", ()) if _ceiling_key(tool, one) == key]
            if said:
                limited = [_ceiling({**one, "limit": value}) for one in said] if isinstance(value, int | float) else []
                self._set(tenant_id, key, tuple(limited))

    def _decided(self, step: Step, known: Known, operation: Operation, choice: Choice) -> None:
        event = ev.ReviewDecided(
            event_id="",
            **self._envelope(known, step, operation),
            review_id=operation.review.review_id if operation.review else operation.reviews,
            choice=choice,
            reviewer=step.get("by", step.actor),
            reason=step.get("reason", step.do),
            reference=step.get("ref"),
        )
        self._world.append(with_event_id(event))

    def _envelope(self, known: Known, step: Step, operation: Operation) -> dict[str, Any]:
        return {
            "tenant_id": known.tenant_id,
            "route": known.route,
            "operation_id": known.operation_id,
            "group_id": known.group_id,
            "actor": step.get("by", step.actor),
            "seen_version": operation.version,
        }


_CHOICES: Final = {
    "succeeded": "confirmed",
    "failed": "rejected",
    "allow": "not_found",
    "approve": "not_found",
    "deny": "cancelled",
    "reject": "cancelled",
    "resend": "not_found",
}
"""Words of cases for what a reviewer may choose."""
_VERDICTS: Final = {
    "allow": Decision.ALLOW,
    "approve": Decision.ALLOW,
    "deny": Decision.DENY,
    "reject": Decision.DENY,
}
"""The same, where an approval was asked for."""


def _approval_policy(declared: Mapping[str, Any]) -> ToolPolicy:
    if not declared.get("needs_approval"):
        return ToolPolicy()
    wait_s = declared.get("approval_wait_s")
    if wait_s is None:
        return ToolPolicy(approval=True, approval_wait=_WAIT_MAX_S, approval_lifetime=_LIFETIME_MAX_S)
    return ToolPolicy(approval=True, approval_wait=float(wait_s), approval_lifetime=max(float(wait_s), 0.001))


def _ceiling_key(tool: str, said: Mapping[str, Any]) -> str:
    return "ceiling:*" if said.get("scope") == "tenant" else f"ceiling:{tool}"


def _ceiling(said: Mapping[str, Any]) -> Ceiling:
    scope = "group" if said.get("scope") == "workflow" else "tenant"
    at_once = bool(said.get("at_once"))
    per_s = None if at_once else int(said.get("per_s", 3600))
    return Ceiling(limit=int(said["limit"]), per_s=per_s, at_once=at_once, scope=scope)  # type: ignore[arg-type]
