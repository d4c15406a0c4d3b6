"""A tool on the built-in faulty provider, with its look-up, list and stage, as a team would write them."""

import contextlib
import itertools
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from landed import (
    Absent,
    Ambiguous,
    Effect,
    Found,
    Listed,
    ListRequest,
    OperationKey,
    Probe,
    ProbeAnswer,
    ProbeRequest,
    Stage,
    ToolRegistry,
    current_operation,
)
from landed.testing.faulty_provider import FaultyProvider


class Team:
    """Registry and tool of a team, and where its provider is."""

    def __init__(self, provider: FaultyProvider, *, lists: bool = True, **contract: Any) -> None:
        self.provider = provider
        self.url = provider.url
        self.stage_url: str | None = None
        self.follows = True
        self.tries = 1
        self.calls = 0
        self.looks = 0
        self.registry = ToolRegistry()
        terms: dict[str, Any] = {
            "operation_key": OperationKey(header="Idempotency-Key"),
            "reference_field": "id",
            "receipt_fields": ["id", "amount"],
            "stored_args": ["amount"],
            "outcome_probe": Probe(tool="effects.find"),
            "safe_window": 2.0,
            **contract,
        }

        @self.registry.effect(tool="effects.make", effect=Effect(kind="effect.make"), **terms)
        def make(amount: int) -> Any:
            self.calls += 1
            operation = current_operation()
            for left in reversed(range(self.tries)):
                try:
                    return self.asked("POST", "/effects", {"operation_id": operation.id, "amount": amount}, key=operation.id)
                except (OSError, ValueError):
                    if not left:
                        raise
            raise AssertionError

        @make.probe
        def find(request: ProbeRequest) -> ProbeAnswer:
            self.looks += 1
            effects = self.asked("GET", f"/effects?operation_id={request.operation_id}")["data"]
            if not effects:
                return Absent()
            if len(effects) > 1:
                return Ambiguous(f"{len(effects)} effects")
            receipt = {name: effects[0][name] for name in ("id", "amount")}
            return Found(reference=effects[0]["id"], receipt=receipt, matched_on=("operation_id",))

        if lists:

            @make.list_probe
            def list_all(request: ListRequest) -> Iterator[Listed]:
                for one in self.asked("GET", "/effects")["data"]:
                    yield Listed(reference=one["id"], operation_id=one.get("operation_id"), provider_time_ms=one["created_ms"])

        amounts = itertools.count(100)

        @make.stage
        @contextlib.contextmanager
        def stage() -> Iterator[Stage]:
            yield Stage(
                url=self.stage_url or self.provider.url,
                use=lambda url: setattr(self, "url", url) if self.follows else None,
                arguments=lambda: {"amount": next(amounts)},
            )

        self.tool = make

    def asked(self, method: str, path: str, body: Mapping[str, Any] | None = None, key: str | None = None) -> Any:
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)
