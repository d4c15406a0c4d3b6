"""May this inverse be performed? The request that a policy is asked, the rules of the built-in policy, and its ruling. Pure.

What no policy could allow is settled before any is asked (`settled_before`): an effect without evidence, a reference that belongs
to somebody else. Then the rules: one that denies wins, else the first that allows counts, else it is denied.

Source: docs/semantics.md §8 (Each compensation is authorized when it runs), §4 (`authorization_action`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from math import isfinite
from typing import Any, Final, Literal, TypeAlias

import msgspec

from landed.core.contract import Part, Problem
from landed.core.vocabulary import Decision, ForwardOutcome


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy may look at; it is recorded with the ruling."""

    workflow_id: str
    """The group, or the route of an operation that has none."""
    caused_by_action: str
    """Why the group unwinds."""
    forward_status: ForwardOutcome
    policy_version: str | None
    """Version of the policy that is asked, which is the present one, not the one of the forward call."""
    requires_human: bool
    """The inverse itself cannot be taken back, or its contract says so by its stakes."""
    tenant_id: str
    workflow_type: str | None = None
    forward_policy_version: str | None = None
    """Version of the policies under which the forward call was granted."""
    forward_tool: str
    age_s: float | None = None
    """Seconds since the effect was confirmed; None where it never was."""
    inputs: Mapping[str, Any] = {}
    """Arguments of the inverse that its contract keeps on the log."""
    approved_by: str | None = None
    """Who approved just this inverse with just these arguments."""
    evidence: bool
    """The effect, or that it may exist, is on record with what the inverse needs."""
    foreign_reference: bool = False
    """A reference that the inverse would act on is on record for another tenant or operation."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The request (§8)."""

    action: str
    """`authorization_action` of the compensation, else the inverse's effect kind."""
    resource: str
    """The provider's reference of the effect, else the forward operation."""
    principal: str
    """Who claims the inverse: the worker's name, `compensator` for the service."""
    context: Context


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    decision: Decision
    reason: str
    rule: str | None = None
    """Id of the rule that decided; None: none did, or it was settled before any was asked."""
    needs_human: bool = False
    """Denied only for want of an approval: a person may give it."""


def settled_before(asked: Asked) -> Ruling | None:
    """What no policy could allow."""
    if asked.context.foreign_reference:
        return Ruling(decision=Decision.DENY, reason="the provider's reference belongs to another operation")
    if not asked.context.evidence:
        return Ruling(decision=Decision.DENY, reason="the evidence of the forward effect is incomplete")
    return None


# ---- the built-in policy -------------------------------------------------------------------------------------------------


class AmountLimit(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    field: str
    """Argument of the inverse, kept on the log: a number, or the text of one, that is not below 0."""
    at_most: float


class Rule(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Everything that is named must hold; what is left out holds for all. Names may contain `*`."""

    id: str
    effect: Literal["allow", "deny"] = "allow"
    actions: tuple[str, ...] = ("*",)
    principals: tuple[str, ...] = ("*",)
    workflow_types: tuple[str, ...] = ("*",)
    forward_status: tuple[ForwardOutcome, ...] | None = None
    """Forward statuses that the rule speaks of. None: a rule that denies speaks of all, one that allows only of `succeeded`: for
    `unknown` an inverse needs a rule that says so."""
    amount: AmountLimit | None = None
    max_age: float | None = None
    """Seconds since the effect was confirmed."""
    approval: bool = False
    """A person has to approve this very inverse."""


class Rules(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="engine", tag="rules"):
    """A rules file: the built-in policy."""

    rules: tuple[Rule, ...]


class CedarPolicies(
    Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="engine", tag="cedar"
):
    """Policies in the Cedar language; `adapters/cedar.py` asks them. Principals are `Worker`, resources `Effect`."""

    policies: str
    inputs: dict[str, Literal["Long", "String", "Bool", "decimal"]] = {}  # noqa: RUF012 - msgspec copies it
    """Arguments of inverses that the policies may read as `context.inputs.<name>`, with their Cedar types."""


CompensationPolicy: TypeAlias = Rules | CedarPolicies
"""Value of the policy `compensation`: who may perform which inverse."""


def problems(rules: Rules) -> Iterator[Problem]:
    """What is wrong with *rules*: the field and the rule it breaks."""
    seen: set[str] = set()
    for number, rule in enumerate(rules.rules):
        at = f"rules[{number}]"
        if not rule.id.strip():
            yield Problem(f"{at}.id", "must not be empty: it is recorded with each decision")
        elif rule.id in seen:
            yield Problem(f"{at}.id", f"is used twice: {rule.id}")
        seen.add(rule.id)
        for name in ("actions", "principals", "workflow_types", "forward_status"):
            if getattr(rule, name) == ():
                yield Problem(f"{at}.{name}", "must not be empty: leave it out where it does not matter")
        if rule.max_age is not None and not (isfinite(rule.max_age) and rule.max_age > 0):
            yield Problem(f"{at}.max_age", "must be greater than 0 (seconds)")
        if rule.amount is not None and not (isfinite(rule.amount.at_most) and rule.amount.at_most >= 0):
            yield Problem(f"{at}.amount.at_most", "must not be negative")
        if rule.effect == "deny" and (rule.approval or rule.amount is not None or rule.max_age is not None):
            yield Problem(
                f"{at}.effect", "a rule that denies names whom and what; limits and approvals belong to rules that allow"
            )


def ruling(rules: Rules, asked: Asked) -> Ruling:
    """What *rules* say about *asked*: total, default deny."""
    matching = [rule for rule in rules.rules if _speaks_of(rule, asked)]
    for rule in matching:
        if rule.effect == "deny":
            return Ruling(decision=Decision.DENY, reason=f"denied by {rule.id}", rule=rule.id)
    failed: list[str] = []
    waiting: Rule | None = None
    for rule in matching:
        unmet = _unmet(rule, asked)
        if unmet is None and (asked.context.approved_by or not (rule.approval or asked.context.requires_human)):
            return Ruling(decision=Decision.ALLOW, reason=f"allowed by {rule.id}", rule=rule.id)
        if unmet is None:
            waiting = waiting or rule
        else:
            failed.append(f"{rule.id}: {unmet}")
    if waiting is not None:
        return Ruling(decision=Decision.DENY, reason=f"{waiting.id}: needs an approval", rule=waiting.id, needs_human=True)
    return Ruling(decision=Decision.DENY, reason="; ".join(failed) or "no rule allows it")


def _speaks_of(rule: Rule, asked: Asked) -> bool:
    context, statuses = asked.context, rule.forward_status
    if statuses is None:
        statuses = tuple(ForwardOutcome) if rule.effect == "deny" else (ForwardOutcome.SUCCEEDED,)
    return (
        _named(rule.actions, asked.action)
        and _named(rule.principals, asked.principal)
        and _named(rule.workflow_types, context.workflow_type or "")
        and context.forward_status in statuses
    )


def _named(patterns: Sequence[str], name: str) -> bool:
    # Only `*` is a pattern; a name with the others in it stands for itself, so that a rule that denies it is not lost.
    return any(fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]")) for pattern in patterns)


def _unmet(rule: Rule, asked: Asked) -> str | None:
    """The limit of *rule* that *asked* exceeds. What cannot be compared exceeds it."""
    context = asked.context
    if rule.max_age is not None:
        if context.age_s is None:
            return "the age of the effect is not known"
        if context.age_s > rule.max_age:
            return f"the effect is older than {rule.max_age:g} s"
    if rule.amount is not None:
        amount = _number(context.inputs.get(rule.amount.field))
        if amount is None:
            return f"{rule.amount.field} is no number on record"
        if amount < 0:
            return f"{rule.amount.field} is below 0"
        if amount > Decimal(str(rule.amount.at_most)):
            return f"{rule.amount.field} is above {rule.amount.at_most:g}"
    return None


_PLAIN: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def _number(value: Any) -> Decimal | None:
    """*value* to the last digit. Only of plain text does everybody read the same number: `1_0` and `1,0` are none."""
    match value:
        case bool():
            return None
        case int():
            return Decimal(value)
        case float():
            return Decimal(str(value)) if isfinite(value) else None
        case str() if _PLAIN.fullmatch(value):
            return Decimal(value)
        case _:
            return None


_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def context_json(context: Context) -> str:
    """*context* as it is recorded in `compensation_authorized`."""
    return _ENCODER.encode(context).decode()
