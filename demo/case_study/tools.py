"""The travel agent's tools, alike in the script and in the services: four bookings with their inverses, a card, a mail."""

import http.client
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from landed import Absent, Ambiguous, Compensation, Effect, Found, NotSent, Probe, ProbeRequest, ToolError, ToolRegistry
from landed import current_operation as current
from landed.core.vocabulary import Stakes
from landed.sdk.probes import ProbeAnswer

PROVIDER_URL: Final = "CASE_STUDY_PROVIDER_URL"
"""Setting of the case study: where the provider is reached, through the fault proxy."""
BOOKINGS: Final = ("flight", "hotel", "seat", "car")
LOOKED_UP: Final[dict[str, Any]] = {
    "reference_field": "id",
    "first_check_after": 0.3,
    "backoff": 1.0,
    "max_interval": 0.5,
    "max_checks": 100,
    "lease": 10.0,
    "longest_processing": 20.0,
    "safe_window": 20.0,
}

registry = ToolRegistry()


def ask(method: str, path: str, body: dict[str, Any] | None = None, *, url: str | None = None) -> Any:
    """One request to the provider, without retries.

    Raises:
        NotSent: it was not reached.
        ToolError: it answered with an error.
    """
    parts = urlsplit(url or os.environ[PROVIDER_URL])
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20.0)
    try:
        try:
            connection.connect()
        except OSError as error:
            raise NotSent("the provider was not reached") from error
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        said = json.loads(response.read())
        if response.status != 200:
            raise ToolError(said["error"], status=response.status)
        return said
    finally:
        connection.close()


def make(kind: str, **fields: Any) -> Any:
    return ask("POST", "/records", {"operation_id": current().id, "kind": kind, **fields})


def look(request: ProbeRequest) -> ProbeAnswer:
    """The provider's own records of the operation."""
    found = ask("GET", "/records?" + urlencode({"operation_id": request.operation_id}))["data"]
    if len(found) > 1:
        return Ambiguous(f"{len(found)} records carry this operation id")
    if not found:
        return Absent()
    return Found(reference=found[0]["id"], receipt=found[0], matched_on=("operation_id",))


def undone_by(inverse: str) -> Compensation:
    return Compensation(tool=inverse, required_fields=("id",), automatic=True)


def bookable(into: ToolRegistry, kind: str, terms: Mapping[str, Any], *, answered: Callable[[], None] = lambda: None) -> None:
    """Adds the booking of a *kind* and its cancellation, both looked up under *terms*.

    Args:
        answered: called when the provider has answered a booking, before anybody is told.
    """

    @into.effect(
        tool=f"book_{kind}",
        effect=Effect(kind=f"{kind}.create"),
        stored_args=("trip",),
        receipt_fields=("id",),
        outcome_probe=Probe(tool=f"find_{kind}"),
        compensation=undone_by(f"cancel_{kind}"),
        **terms,
    )
    def book(trip: str) -> Any:
        made = make(kind, trip=trip)
        answered()
        return made

    @book.inverse
    @into.effect(
        tool=f"cancel_{kind}", effect=Effect(kind=f"{kind}.delete"), outcome_probe=Probe(tool=f"find_cancel_{kind}"), **terms
    )
    def cancel(id: str) -> Any:
        return make(f"cancel {kind}", undoes=id)

    book.probe(look)
    cancel.probe(look)


for _kind in BOOKINGS:
    bookable(registry, _kind, LOOKED_UP)


@registry.effect(
    tool="charge_card",
    effect=Effect(kind="charge.create"),
    stakes=Stakes.MONEY,
    stored_args=("trip", "amount"),
    receipt_fields=("id", "amount"),
    no_effect_errors=("card_declined",),
    outcome_probe=Probe(tool="find_charge"),
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
    tool="send_email",
    effect=Effect(kind="email.send"),
    stored_args=("trip",),
    receipt_fields=("id",),
    no_inverse=True,
    outcome_probe=Probe(tool="find_email"),
    **LOOKED_UP,
)
def send_email(trip: str) -> Any:
    return make("email", trip=trip)


charge_card.probe(look)
refund_card.probe(look)
send_email.probe(look)
