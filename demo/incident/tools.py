"""The booking agent's tools of the incident: two bookings, seats, and a card whose charges the provider reports by webhook."""

import os
import signal
from typing import Any, Final

from demo.case_study.tools import bookable, look, make, undone_by
from landed import Effect, Probe, ToolRegistry
from landed.core.contract import Webhook
from landed.core.vocabulary import Stakes

FREEZE_AFTER_EFFECT: Final = "INCIDENT_FREEZE_AFTER_EFFECT"
"""Setting of the script: the worker stops itself once the provider has answered, before anybody is told."""
BOOKINGS: Final = ("flight", "hotel")
LOOKED_UP: Final[dict[str, Any]] = {
    "reference_field": "id",
    "first_check_after": 0.3,
    "backoff": 1.0,
    "max_interval": 0.3,
    "max_checks": 4,
    "lease": 2.5,
    "longest_processing": 4.0,
    "safe_window": 4.0,
}

registry = ToolRegistry()


def _freeze() -> None:
    if os.environ.get(FREEZE_AFTER_EFFECT):
        os.kill(os.getpid(), signal.SIGSTOP)


for _kind in BOOKINGS:
    bookable(registry, _kind, LOOKED_UP, answered=_freeze)


@registry.effect(
    tool="charge_card",
    effect=Effect(kind="charge.create"),
    stakes=Stakes.MONEY,
    stored_args=("trip", "amount"),
    receipt_fields=("id", "amount"),
    outcome_probe=Probe(tool="find_charge"),
    webhook=Webhook(
        match="data.operation_id",
        reference="data.id",
        status="type",
        receipt="data",
        order_by="created",
        confirmed_when=("charge.succeeded",),
    ),
    compensation=undone_by("refund_card"),
    **LOOKED_UP,
)
def charge_card(trip: str, amount: int, card: str) -> Any:
    return make("charge", trip=trip, amount=amount, card=card)


@charge_card.inverse
@registry.effect(tool="refund_card", effect=Effect(kind="charge.delete"), outcome_probe=Probe(tool="find_refund"), **LOOKED_UP)
def refund_card(id: str) -> Any:
    return make("refund", undoes=id)


@registry.effect(
    tool="reserve_seat",
    effect=Effect(kind="seat.create"),
    stored_args=("trip",),
    receipt_fields=("id",),
    no_inverse=True,
    outcome_probe=Probe(tool="find_seat"),
    **LOOKED_UP,
)
def reserve_seat(trip: str) -> Any:
    return make("seat", trip=trip)


charge_card.probe(look)
refund_card.probe(look)
reserve_seat.probe(look)
