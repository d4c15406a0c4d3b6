"""Events that a story has somebody append directly: said by a word, about an operation that was presented before."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from landed.core import events as ev
from landed.core.state import Operation
from landed.core.vocabulary import BytesLeft, Source
from landed.testing.cases.loading import Step
from landed.testing.cases.world import NotSupported, World


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


def _granted(common: dict[str, Any], operation: Operation, step: Step) -> ev.Event:
    number = operation.last.number + 1 if operation.last is not None else 1
    return ev.DispatchGranted(
        **common,
        claim_id=f"{common['event_id'] or 'claim'}-{number}",
        attempt=number,
        lease_ms=10_000,
        claim_position=ev.Position(partition=0, offset=0),
    )


def _of_the_holder(operation: Operation) -> dict[str, Any]:
    if operation.last is None:
        raise NotSupported("append: nobody has held the operation")
    return {"claim_id": operation.last.claim_id, "attempt": operation.last.number}


Make = Callable[[dict[str, Any], Operation, Step], ev.Event]
WORDS: Final[dict[str, Make]] = {
    **dict.fromkeys(("succeeded", "confirmed", "outcome_confirmed"), _confirmed),
    **dict.fromkeys(("failed", "rejected", "outcome_rejected"), _rejected),
    **dict.fromkeys(("unknown", "outcome_unknown"), _unknown),
    **dict.fromkeys(("renewed", "heartbeat", "lease_renewed"), _renewed),
    **dict.fromkeys(("granted", "dispatched", "dispatch_granted"), _granted),
}
"""Words for events that may be appended."""


def appended(world: World, step: Step) -> ev.Event:
    """The event that *step* has somebody append.

    Raises:
        NotSupported: no word of the vocabulary says which event, or nobody knows the operation.
    """
    known, make = world.find(step.get("op")), WORDS.get(str(step.get("event")))
    if known is None or make is None:
        raise NotSupported(f"{step.actor} {step.do}: which event of which operation is told in prose")
    operation = world.operation(known)
    common = {
        "event_id": "",
        "tenant_id": known.tenant_id,
        "route": known.route,
        "operation_id": known.operation_id,
        "group_id": known.group_id,
        "actor": step.get("node", step.actor),
        "seen_version": operation.version,
    }
    return msgspec.structs.replace(make(common, operation, step))
