"""A shop's tool at a provider behind the fault proxy, alike in every process: `registry` for `landed reconciler`, by settings."""

import http.client
import json
import os
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from landed import Absent, Ambiguous, Found, NotSent, OperationKey, ProbeRequest, ToolError, ToolRegistry, current_operation
from landed.core.contract import Effect, Probe
from landed.core.vocabulary import ActionClass, OnAbsent, Stakes

URL: Final = "SHOP_URL"
TERMS: Final = "SHOP_TERMS"
CALL_LIMIT_S: Final = 1.0

_LOOKED_UP: Final[dict[str, Any]] = {
    "outcome_probe": Probe(tool="shop.find"),
    "first_check_after": 0.2,
    "backoff": 1.0,
    "max_interval": 0.3,
    "safe_window": 2.0,
    "lease": 3.0,
    "max_checks": 60,
}
_KEYED: Final[dict[str, Any]] = {
    "action_class": ActionClass.DEDUPE_SUPPORTED,
    "first_check_after": 0.2,
    "safe_window": 1.5,
    "lease": 2.0,
    "max_attempts": 3,
}
TERMS_OF: Final[dict[str, dict[str, Any]]] = {
    "looked_up": _LOOKED_UP,
    "retried": {**_LOOKED_UP, "on_absent": OnAbsent.RETRY, "max_attempts": 3},
    "offered": {**_LOOKED_UP, "on_absent": OnAbsent.OFFER_RETRY, "max_attempts": 3},
    "keyed": {**_KEYED, "operation_key": OperationKey(header="Idempotency-Key", lifetime=600.0)},
    # The window of a lost answer ends when the key is almost gone: no time for another attempt is left.
    "keyed_briefly": {**_KEYED, "operation_key": OperationKey(header="Idempotency-Key", lifetime=3.0)},
    "neither": {"first_check_after": 0.2, "lease": 3.0},
}


def _answer(url: str, method: str, path: str, body: dict[str, Any] | None = None, key: str | None = None) -> Any:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=CALL_LIMIT_S)
    try:
        try:
            connection.connect()
        except OSError as error:
            raise NotSent("the provider was not reached") from error
        headers = {} if key is None else {"Idempotency-Key": key}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        said = response.read()
        if response.status != 200:
            raise ToolError(str(response.status), status=response.status)
        return json.loads(said)
    finally:
        connection.close()


def shop(url: str, terms: str = "looked_up", **changes: Any) -> ToolRegistry:
    """The registry with `shop.charge`, whose calls and looks go to *url*, under the contract named *terms*, with *changes*."""
    registry = ToolRegistry()
    contract = {**TERMS_OF[terms], **changes}

    @registry.effect(
        tool="shop.charge",
        effect=Effect(kind="charge.create"),
        stakes=Stakes.MONEY,
        stored_args=("order", "amount"),
        reference_field="id",
        reference_pattern=r"ef_\d+",
        receipt_fields=("id", "amount"),
        **contract,
    )
    def charge(order: str, amount: int) -> Any:
        operation = current_operation()
        body = {"operation_id": operation.id, "order": order, "amount": amount}
        return _answer(url, "POST", "/effects", body, operation.id)

    def find(request: ProbeRequest) -> Any:
        said = _answer(url, "GET", "/effects?" + urlencode({"operation_id": request.operation_id}))
        match said["data"]:
            case []:
                return Absent()
            case [one]:
                return Found(reference=one["id"], receipt=one, matched_on=("operation_id",))
            case several:
                return Ambiguous(f"{len(several)} effects")

    if "outcome_probe" in contract:
        charge.probe(find)
    registry.providers.add("shop", tools=["shop.charge"], per_second=200.0, at_once=32)
    return registry


registry = shop(os.environ[URL], os.environ.get(TERMS, "looked_up")) if URL in os.environ else ToolRegistry()
