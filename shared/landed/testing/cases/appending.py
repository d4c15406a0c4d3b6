"""Events that a story has somebody append directly, said by a word. What stands in prose alone is for readers.

An operation that no step has presented before was sent before the story begins: its outcome stands on a log that holds its claim.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from landed.core import events as ev
from landed.core.fold import empty_route, fold
from landed.core.state import Operation
from landed.core.vocabulary import BytesLeft, GroupState, Source, State
from landed.sdk.intent import hash_of, intent_of, prepared
from landed.testing.cases.loading import Step
from landed.testing.cases.processes import DIGEST_KEY
from landed.testing.cases.world import VERDICT_WAIT_S, Known, World, worker_of
from landed.wire.ids import with_event_id


def _confirmed(common: dict[str, Any], operation: Operation, step: Step) -> ev.Event:
    holder = operation.last
    return ev.OutcomeConfirmed(
        **common,
        attempt=None if holder is None else holder.number,
        claim_id=None if holder is None else holder.claim_id,
        source=Source.WORKER,
        reference=step.get("ref"),
    )


def _rejected(common: dict[str, Any], operation: Operation, step: Step) -> ev.Event:
    holder = operation.last
    return ev.OutcomeRejected(
        **common,
        attempt=None if holder is None else holder.number,
        claim_id=None if holder is None else holder.claim_id,
        source=Source.WORKER,
        error_code=step.get("status", "failed"),
    )


def _unknown(common: dict[str, Any], operation: Operation, step: Step) -> ev.Event:
    return ev.OutcomeUnknown(**common, **_of_the_holder(operation), error_class="TimeoutError", bytes_left=BytesLeft.UNKNOWN)


def _renewed(common: dict[str, Any], operation: Operation, step: Step) -> ev.Event:
    number = step.get("epoch", operation.last.lease_number + 1 if operation.last is not None else 1)
    lease_ms = round(float(operation.contract.lease if operation.contract is not None else 10.0) * 1000)
    return ev.LeaseRenewed(**common, **_of_the_holder(operation), lease_number=number, lease_ms=lease_ms)


def _expired(common: dict[str, Any], operation: Operation, step: Step) -> ev.Event:
    last = operation.last
    return ev.LeaseExpired(
        **common,
        **_of_the_holder(operation),
        lease_number=0 if last is None else last.lease_number,
        lease_end_ms=0 if last is None else last.lease_end_ms,
    )


def _released(common: dict[str, Any], operation: Operation, step: Step) -> ev.Event:
    return ev.DispatchReleased(**common, **_of_the_holder(operation), why=step.get("reason", "as the case says"))


def _reverted(common: dict[str, Any], operation: Operation, step: Step) -> ev.Event:
    return ev.EffectReverted(**common, source=Source.WORKER, reference=step.get("ref"))


def _granted(common: dict[str, Any], operation: Operation, step: Step) -> ev.Event:
    number = operation.last.number + 1 if operation.last is not None else 1
    return ev.DispatchGranted(
        **common,
        claim_id=f"appended-{number}",
        attempt=number,
        lease_ms=10_000,
        claim_position=ev.Position(partition=0, offset=0),
    )


def _of_the_holder(operation: Operation) -> dict[str, Any]:
    """Of nobody, where nobody has held it: the fold refuses that."""
    if operation.last is None:
        return {"claim_id": "nobody", "attempt": 1}
    return {"claim_id": operation.last.claim_id, "attempt": operation.last.number}


Make = Callable[[dict[str, Any], Operation, Step], ev.Event]
PREPARED: Final = frozenset({"prepared", "planned", "intent", "operation_prepared"})
CLAIMED: Final = frozenset({"claim", "claimed", "requested", "dispatch_requested"})
WORDS: Final[dict[str, Make]] = {
    **dict.fromkeys(("succeeded", "confirmed", "outcome_confirmed"), _confirmed),
    **dict.fromkeys(("failed", "rejected", "outcome_rejected"), _rejected),
    **dict.fromkeys(("unknown", "outcome_unknown"), _unknown),
    **dict.fromkeys(("renewed", "heartbeat", "lease_renewed"), _renewed),
    **dict.fromkeys(("expired", "lease_expired"), _expired),
    **dict.fromkeys(("released", "dispatch_released"), _released),
    **dict.fromkeys(("reverted", "effect_reverted"), _reverted),
    **dict.fromkeys(("granted", "running", "dispatched", "dispatch_granted"), _granted),
}
"""Words for events that may be appended, beside `PREPARED` and `CLAIMED`."""
_FIELDS: Final = ("event", "result", "value")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_UNREADABLE: Final = re.compile(r"undecod|unread|corrupt|garbage|malformed|garbled|not decod|cannot be (?:decoded|read)")


def word_of(step: Step) -> str | None:
    """The word of *step* that says which event; None where no field says one."""
    for field in _FIELDS:
        said = step.get(field)
        if isinstance(said, Mapping):
            said = said.get("event", said.get("type", said.get("state", said.get("status"))))
        words = _CAMEL.sub("_", str(said or "").strip()).lower().replace("-", "_").split()
        for word in ("_".join(words), *words[:1]):
            if word in WORDS or word in PREPARED or word in CLAIMED:
                return word
    return None


def unreadable(step: Step, release: int) -> bool:
    """Whether a release that knows schemas up to *release* cannot read what *step* appends."""
    schema = step.get("schema")
    return (isinstance(schema, int) and schema > release) or bool(_UNREADABLE.search(str(step.get("value", "")).lower()))


def appended(world: World, step: Step, identify: Callable[[str], Known]) -> tuple[ev.Event, ...] | None:
    """The events that *step* has somebody append; None where no word says which event of which operation.

    Args:
        identify: who an operation is that nobody has presented yet.
    """
    op, word = step.get("op"), word_of(step)
    if op is None or (word is None and not unreadable(step, release=1)):
        return None
    before = world.find(op)
    known = before or identify(op)
    operation = world.operation(known)
    if word is None:
        return (ev.AgentStatement(**_common(world, known, step), message_digest="", claimed_state="unknown"),)
    if word in PREPARED or word in CLAIMED:
        return (_prepared(world, known, step, claimed=word in CLAIMED),)
    implied = _history(world, known, step) if before is None and operation.state is State.NONE else ()
    for event in implied:
        operation = _after(world, known, operation, event)
    if WORDS[word] is _granted and implied:
        return implied
    return (*implied, WORDS[word](_common(world, known, step, operation), operation, step))


def _common(world: World, known: Known, step: Step, operation: Operation | None = None) -> dict[str, Any]:
    return {
        "event_id": "",
        "tenant_id": known.tenant_id,
        "route": known.route,
        "operation_id": known.operation_id,
        "group_id": known.group_id,
        "actor": worker_of(step.fields, step.actor),
        "seen_version": (operation or world.operation(known)).version,
    }


def _history(world: World, known: Known, step: Step) -> tuple[ev.Event, ...]:
    """What must stand on the log of an operation that was sent before the story begins."""
    empty = Operation(operation_id=known.operation_id)
    return _prepared(world, known, step), _granted(_common(world, known, step, empty), empty, step)


def _after(world: World, known: Known, operation: Operation, event: ev.Event) -> Operation:
    route = empty_route(known.tenant_id, known.route)
    held = msgspec.structs.replace(route, operations={operation.operation_id: operation}, group_state=GroupState.OPEN)
    place = ev.Position(partition=0, offset=operation.version)
    entry = ev.Entry(event=with_event_id(event), position=place, at_ms=world.timeline.now_ms(), digest="")
    return fold(held, entry).route.operation(operation.operation_id)


def _prepared(world: World, known: Known, step: Step, *, claimed: bool = False) -> ev.Event:
    intent = intent_of(
        world.contract(known.tool), dict(known.arguments), operation_id=known.operation_id, group_id=known.group_id
    )
    worker, now_ms, hashed, claim = worker_of(step.fields, step.actor), world.timeline.now_ms(), hash_of(intent), None
    if claimed:
        claim = ev.Claim(
            claim_id=world.ids.random_id(),
            request_hash=hashed,
            worker=worker,
            reply_to=worker,
            lease_ms=round(intent.contract.lease * 1000),
            asked_at_ms=now_ms,
            answer_by_ms=now_ms + round(VERDICT_WAIT_S * 1000),
        )
    return prepared(intent, claim, tenant_id=known.tenant_id, actor=worker, digest_key=DIGEST_KEY.value, hashed=hashed)
