"""A trip's tools at a provider that keeps records, alike in every process: `registry` for services, by settings.

Each booking is a record of the provider; its inverse leaves a record of its own, so that what was done twice shows.
"""

import http.client
import json
import os
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from landed import Absent, Compensation, Found, NotSent, ProbeRequest, ToolError, ToolRegistry, current_operation
from landed.core.contract import Effect, Probe, Requires

URL: Final = "TRIP_URL"
TERMS: Final[dict[str, dict[str, Any]]] = {
    "flight": {},
    "hotel": {},
    "seat": {},
    # Its inverse has no probe: it is looked up by the one of the booking.
    "car": {"gone_errors": ("404",)},
    # Refundable only once the provider has opened it.
    "pass": {"requires": Requires(read="pass_state", condition="status open", wait=0.5)},
}
BORROWS: Final = "car"
CANCELS: Final = tuple(f"cancel_{kind}" for kind in TERMS)
UNREACHABLE: Final[set[str]] = set()
"""Operations of this process whose look-up fails."""
CALL_LIMIT_S: Final = 2.0


def ask(url: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=CALL_LIMIT_S)
    try:
        try:
            connection.connect()
        except OSError as error:
            raise NotSent("the provider was not reached") from error
        connection.request(method, path, None if body is None else json.dumps(body), {})
        response = connection.getresponse()
        said = response.read()
        if response.status != 200:
            raise ToolError(str(response.status), status=response.status)
        return json.loads(said)
    finally:
        connection.close()


def records(url: str, operation_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(url, "GET", "/effects?" + urlencode({"operation_id": operation_id}))["data"]
    return found


def trip(url: str) -> ToolRegistry:
    """`book_<kind>` and `cancel_<kind>` for each kind of `TERMS`, and `send_mail`, which nothing takes back."""
    registry = ToolRegistry()
    for kind, terms in TERMS.items():
        _book(registry, url, kind, terms)

    @registry.requirement("pass_state")
    def pass_state(request: ProbeRequest) -> Any:
        opened = records(url, f"open:{request.operation_id}")
        return Found(receipt={"status": "open" if opened else "blocked"}, matched_on=("operation_id",))

    @registry.effect(tool="send_mail", effect=Effect(kind="mail.send"), stored_args=("trip",), no_inverse=True, lease=5.0)
    def send_mail(trip: str) -> Any:
        return ask(url, "POST", "/effects", {"operation_id": current_operation().id, "kind": "mail", "trip": trip})

    return registry


def _book(registry: ToolRegistry, url: str, kind: str, terms: dict[str, Any]) -> None:
    looked_up: dict[str, Any] = {"first_check_after": 0.2, "backoff": 1.0, "max_checks": 60, "lease": 3.0}

    @registry.effect(
        tool=f"book_{kind}",
        effect=Effect(kind=f"{kind}.create"),
        stored_args=("trip",),
        reference_field="id",
        receipt_fields=("id", "kind"),
        outcome_probe=Probe(tool=f"find_{kind}"),
        safe_window=1.5,
        compensation=Compensation(tool=f"cancel_{kind}", required_fields=("id",), automatic=True, **terms),
        **looked_up,
    )
    def book(trip: str) -> Any:
        if not trip:
            raise NotSent("trip: must not be empty")
        return ask(url, "POST", "/effects", {"operation_id": current_operation().id, "kind": kind, "trip": trip})

    @book.probe
    def find(request: ProbeRequest) -> Any:
        if request.operation_id in UNREACHABLE:
            raise ToolError("503", status=503)
        found = records(url, request.operation_id)
        if not found:
            return Absent()
        # A booking whose cancellation is on record is gone.
        status = "removed" if records(url, f"compensate:{request.operation_id}") else "settled"
        return Found(reference=found[0]["id"], receipt=found[0], matched_on=("operation_id",), status=status)

    own: dict[str, Any] = {}
    if kind != BORROWS:
        own = {"outcome_probe": Probe(tool=f"find_cancel_{kind}"), "on_absent": "offer_retry"}

    @book.inverse
    @registry.effect(
        tool=f"cancel_{kind}",
        effect=Effect(kind=f"{kind}.delete"),
        reference_field="id",
        safe_window=1.0,
        max_attempts=12,
        retry_rejected=True,
        no_effect_errors=("503",),
        **looked_up,
        **own,
    )
    def cancel(id: str) -> Any:
        body = {"operation_id": current_operation().id, "kind": f"cancel {kind}", "undoes": id}
        return ask(url, "POST", "/effects", body)

    if own:

        @cancel.probe
        def find_cancel(request: ProbeRequest) -> Any:
            found = records(url, request.operation_id)
            return Found(reference=found[0]["id"], receipt=found[0], matched_on=("operation_id",)) if found else Absent()


registry = trip(os.environ[URL]) if URL in os.environ else ToolRegistry()
