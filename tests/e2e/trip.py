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
KINDS: Final = ("flight", "hotel", "seat", "car")
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


def trip(url: str, *, requires: Requires | None = None, own_probe: bool = True, **undo: Any) -> ToolRegistry:
    """The registry of `book_<kind>` and `cancel_<kind>`.

    Args:
        requires: what every inverse requires.
        own_probe: whether an inverse has a probe of its own; else it is looked up by the forward one.
        undo: further terms of every compensation.
    """
    registry = ToolRegistry()
    for kind in KINDS:
        _book(registry, url, kind, own_probe, {"automatic": True, "requires": requires, **undo})
    if requires is not None:

        @registry.requirement(requires.read)
        def read(request: ProbeRequest) -> Any:
            found = ask(url, "GET", "/effects?" + urlencode({"operation_id": request.operation_id}))["data"]
            return Found(receipt=found[0], matched_on=("operation_id",)) if found else Absent()

    @registry.effect(tool="send_mail", effect=Effect(kind="mail.send"), stored_args=("to",), no_inverse=True, lease=1.5)
    def send_mail(to: str) -> Any:
        return ask(url, "POST", "/effects", {"operation_id": current_operation().id, "kind": "mail", "to": to})

    return registry


def _book(registry: ToolRegistry, url: str, kind: str, own_probe: bool, undo: dict[str, Any]) -> None:
    @registry.effect(
        tool=f"book_{kind}",
        effect=Effect(kind=f"{kind}.create"),
        stored_args=("trip",),
        reference_field="id",
        receipt_fields=("id", "kind"),
        outcome_probe=Probe(tool=f"find_{kind}"),
        first_check_after=0.2,
        backoff=1.0,
        max_checks=60,
        safe_window=1.5,
        lease=1.5,
        compensation=Compensation(tool=f"cancel_{kind}", required_fields=("id",), **undo),
    )
    def book(trip: str) -> Any:
        return ask(url, "POST", "/effects", {"operation_id": current_operation().id, "kind": kind, "trip": trip})

    @book.probe
    def find(request: ProbeRequest) -> Any:
        found = ask(url, "GET", "/effects?" + urlencode({"operation_id": request.operation_id}))["data"]
        if not found:
            return Absent()
        # A booking whose cancellation is on record is gone.
        undone = ask(url, "GET", "/effects?" + urlencode({"operation_id": f"compensate:{request.operation_id}"}))["data"]
        status = "removed" if undone else "settled"
        return Found(reference=found[0]["id"], receipt=found[0], matched_on=("operation_id",), status=status)

    looked_up = {"outcome_probe": Probe(tool=f"find_cancel_{kind}"), "on_absent": "offer_retry"} if own_probe else {}

    @book.inverse
    @registry.effect(
        tool=f"cancel_{kind}",
        effect=Effect(kind=f"{kind}.delete"),
        reference_field="id",
        lease=1.5,
        first_check_after=0.2,
        backoff=1.0,
        max_checks=60,
        safe_window=1.0,
        max_attempts=3,
        retry_rejected=True,
        no_effect_errors=("503",),
        **looked_up,
    )
    def cancel(id: str) -> Any:
        body = {"operation_id": current_operation().id, "kind": f"cancel {kind}", "undoes": id}
        return ask(url, "POST", "/effects", body)

    if own_probe:

        @cancel.probe
        def find_cancel(request: ProbeRequest) -> Any:
            found = ask(url, "GET", "/effects?" + urlencode({"operation_id": request.operation_id}))["data"]
            return Found(reference=found[0]["id"], receipt=found[0], matched_on=("operation_id",)) if found else Absent()


registry = trip(os.environ[URL]) if URL in os.environ else ToolRegistry()
