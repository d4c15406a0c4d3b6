"""The benchmark's destination as a team would declare it: one tool for each tier of what a provider offers.

C1 honours a key and can be looked up, C2 can be looked up, C3 offers neither. Each contract says what the destination's published
declaration says, and no more; the tools reach it by HTTP, through the one door that the harness opens.
"""

import http.client
import json
import os
from typing import Any, Final
from urllib.parse import quote, urlsplit

from bench.irrevon.asked import ASKED_BY, PROVIDER_URL
from landed import Absent, Ambiguous, Effect, Found, NotSent, OperationKey, Probe, ProbeRequest, ToolError, ToolRegistry
from landed import current_operation as current
from landed.core.vocabulary import ActionClass, OnAbsent
from landed.sdk.probes import ProbeAnswer

KEY_LIFETIME_S: Final = 86_400.0
"""The declaration's `window` of C1: PT24H."""
_TERMS: Final[dict[str, Any]] = {
    "effect": Effect(kind="order.create", resource="order"),
    "no_inverse": True,  # the benchmark's class IRREVERSIBLE
    # The ids that stay the same whatever the agent makes up: two calls with them are one intent.
    "business_key": "order:{order_id}:{customer_ref}",
    "stored_args": ("order_id", "customer_ref", "parameters"),
    # The declaration: answers that come before anything was done.
    "no_effect_errors": ("400", "429"),
    "success_when": {"accepted": "yes"},
    "receipt_fields": ("destination_ref",),
    "lease": 3.0,
    "longest_processing": 4.0,
    "safe_window": 4.0,
}
_LOOKED_UP: Final[dict[str, Any]] = {
    "reference_field": "destination_ref",
    "reference_pattern": r"dest_[0-9a-f]{32}",
    "outcome_probe": Probe(tool="orders.find"),
    "first_check_after": 0.3,
    "max_interval": 1.0,
    "max_checks": 60,
    "on_absent": OnAbsent.RETRY,
    "max_attempts": 2,
}

registry = ToolRegistry()


def _asked(method: str, tenant_id: str, query: str = "", body: dict[str, Any] | None = None) -> Any:
    """One request, without retries.

    Raises:
        NotSent: nobody listens.
        ToolError: an answer that says no.
    """
    parts = urlsplit(os.environ[PROVIDER_URL])
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10.0)
    try:
        try:
            connection.connect()
        except OSError as error:
            raise NotSent("the provider was not reached") from error
        content = None if body is None else json.dumps(body)
        connection.request(method, f"/{quote(tenant_id)}/effects{query}", content, {ASKED_BY: str(os.getpid())})
        response = connection.getresponse()
        said = json.loads(response.read())
        if response.status != 200:
            raise ToolError(str(response.status), status=response.status)
        return said
    finally:
        connection.close()


def _make(order_id: str, customer_ref: str, parameters: dict[str, Any]) -> Any:
    # The ids are inside the parameters already; as arguments of their own they name the operation.
    return _asked("POST", current().tenant_id, body={"client_ref": current().id, "payload": parameters})


def _find(request: ProbeRequest) -> ProbeAnswer:
    found = _asked("GET", request.tenant_id, f"?client_ref={quote(request.operation_id)}")["references"]
    if len(found) > 1:
        return Ambiguous(f"{len(found)} effects carry this operation id")
    return Found(reference=found[0], matched_on=("operation_id",)) if found else Absent()


@registry.effect(
    tool="orders.create.c1",
    operation_key=OperationKey(reference="client_ref", lifetime=KEY_LIFETIME_S),
    action_class=ActionClass.DEDUPE_SUPPORTED,
    **_TERMS,
    **_LOOKED_UP,
)
def create_c1(order_id: str, customer_ref: str, parameters: dict[str, Any]) -> Any:
    return _make(order_id, customer_ref, parameters)


@registry.effect(
    tool="orders.create.c2",
    operation_key=OperationKey(reference="client_ref", honoured=False),
    **_TERMS,
    **_LOOKED_UP,
)
def create_c2(order_id: str, customer_ref: str, parameters: dict[str, Any]) -> Any:
    return _make(order_id, customer_ref, parameters)


@registry.effect(tool="orders.create.c3", action_class=ActionClass.IRREVERSIBLE, **_TERMS)
def create_c3(order_id: str, customer_ref: str, parameters: dict[str, Any]) -> Any:
    return _make(order_id, customer_ref, parameters)


create_c1.probe(_find)
create_c2.probe(_find)
