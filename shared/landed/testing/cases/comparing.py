"""What a case expects, compared with what came of it: states, groups, effects; the differences in words.

Source: the head of a file of cases (`expected_final_state`: "in the ledger's words").
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from landed.core.state import Operation
from landed.core.vocabulary import Decision, GroupState, Refusal, State
from landed.sdk.results import Confirmed, Refused, Rejected, Result
from landed.testing.cases.loading import Case, expanded
from landed.testing.cases.world import Known, World

_SHOWN: Final = {
    State.DISPATCHED: "running",
    State.CONFIRMED: "succeeded",
    State.REJECTED: "failed",
    State.NOT_FOUND: "failed",
    State.UNKNOWN: "unknown",
    State.RECONCILING: "unknown",
    State.ESCALATED: "needs_human",
    State.CANCELLED: "cancelled",
    State.COMPENSATING: "compensating",
    State.COMPENSATED: "compensated",
}
_STATES: Final = frozenset({"planned", "refused", *_SHOWN.values()})
_WAITS: Final = frozenset({Refusal.APPROVAL_REQUIRED, Refusal.RESOURCE_BUSY})
_GROUPS: Final = {
    GroupState.NONE: "open",
    GroupState.OPEN: "open",
    GroupState.CLOSED: "open",
    GroupState.UNWINDING: "unwinding",
    GroupState.UNWOUND: "unwound",
    GroupState.NEEDS_HUMAN: "needs_human",
}


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """Differences of one case, and what was left to people."""

    differences: tuple[str, ...] = ()
    checked: int = 0
    """Expectations that were compared."""
    for_people: tuple[str, ...] = ()
    """Expectations in words, which a person compares."""


def compared(case: Case, world: World) -> Compared:
    """Compares the whole outcome of *case* with *world*."""
    if case.exact:
        found = [*_states(case, world), *_groups(case, world), *_effects(case, world)]
        return Compared(differences=tuple(text for text in found if text), checked=len(found))
    return _described(case, world)


def shown_state(world: World, op: str) -> str:
    """State of *op* in the words of cases."""
    known = world.known.get(op)
    if known is None:
        return "refused"
    result = world.last_told(op)
    if known.tool in world.provider.reads:
        return _read(result)
    return _state(world.operation(known), result)


def _state(operation: Operation, result: Result | None) -> str:
    if operation.state in _SHOWN:
        return _SHOWN[operation.state]
    if operation.approvals and operation.approvals[-1].decision is Decision.DENY:
        return "refused"
    if not isinstance(result, Refused) or result.reason in _WAITS:
        return "planned"
    given_back = result.detail.get("released") is not None and result.reason is not Refusal.REQUEST_MISMATCH
    return "planned" if given_back else "refused"


def _read(result: Result | None) -> str:
    match result:
        case Confirmed():
            return "succeeded"
        case Rejected():
            return "failed"
        case _:
            return "unknown"


def _states(case: Case, world: World) -> Iterator[str]:
    for name, wanted in case.states.items():
        ops = expanded(name)
        got = Counter(shown_state(world, op) for op in ops)
        expected = Counter({wanted: len(ops)}) if isinstance(wanted, str) else Counter({w: n for w, n in wanted.items() if n})
        refusal = world.last_refusal(name)
        why = f" ({refusal})" if refusal is not None and got == Counter(["refused"]) else ""
        yield "" if got == expected else f"state of {name}: {_words(got)}{why} instead of {_words(expected)}"


def _words(counts: Counter[str]) -> str:
    if sum(counts.values()) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))


def _groups(case: Case, world: World) -> Iterator[str]:
    for group, wanted in case.groups.items():
        got = _GROUPS[_group(world, group)]
        yield "" if got == wanted else f"group {group}: {got} instead of {wanted}"


def _group(world: World, group: str) -> GroupState:
    known: Known | None = world.known.get(group)
    for route in world.routes():
        if route.route == group or (known is not None and (route.tenant_id, route.route) == (known.tenant_id, known.route)):
            return route.group_state
    return GroupState.NONE


def _effects(case: Case, world: World) -> Iterator[str]:
    for name, wanted in case.effects.items():
        got = world.provider.effects[name]
        yield "" if got == wanted else f"effects of {name}: {got} instead of {wanted}"


# ---- described -------------------------------------------------------------------------------------------------------------


def _described(case: Case, world: World) -> Compared:
    """Compares what words of the vocabulary say; sentences are for people."""
    differences, people, checked = [], [], 0
    for name, text in case.states.items():
        allowed = _named_states(str(text))
        if allowed and name in world.known:
            checked += 1
            got = shown_state(world, name)
            if got not in allowed:
                differences.append(f"state of {name}: {got} instead of {text}")
        else:
            people.append(f"state of {name}: {text}")
    for group, wanted in case.groups.items():
        checked += 1
        got = _GROUPS[_group(world, group)]
        if got != wanted:
            differences.append(f"group {group}: {got} instead of {wanted}")
    for name, wanted in case.effects.items():
        if isinstance(wanted, int) and re.fullmatch(r"[a-z_]+\.[a-z_]+", name):
            checked += 1
            if world.provider.effects[name] != wanted:
                differences.append(f"effects of {name}: {world.provider.effects[name]} instead of {wanted}")
        else:
            people.append(f"effects of {name}: {wanted}")
    return Compared(differences=tuple(differences), checked=checked, for_people=tuple(people))


def _named_states(text: str) -> frozenset[str]:
    """States that *text* begins with: `succeeded`, or `succeeded or refused, by …`; none where it is a sentence."""
    head = re.split(r"[,:;]", text, maxsplit=1)[0]
    words = [word.strip() for word in head.split(" or ")]
    return frozenset(words) if words and set(words) <= _STATES else frozenset()
