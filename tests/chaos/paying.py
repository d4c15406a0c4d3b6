"""A provider that survives every kill, since its effects are lines of a file, and tools whose effects it counts."""

import os
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from landed import Absent, Ambiguous, Found, ProbeRequest, Tool, ToolRegistry, current_operation, effect
from landed.core.contract import Effect, Probe
from landed.core.vocabulary import OnAbsent

LEASE_S = 3.0
SAFE_WINDOW_S = 0.6
PATIENT_LEASE_S = 60.0


class Provider:
    """Effects of all processes that name the same file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def commit(self, operation_id: str) -> str:
        """Makes an effect; its reference."""
        reference = f"re_{uuid.uuid4().hex}"
        place = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            # One write to the end of the file: no other process gets in between, and a kill leaves all of it or nothing.
            os.write(place, f"{operation_id} {reference}\n".encode())
        finally:
            os.close(place)
        return reference

    def references(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for line in self.path.read_text().splitlines():
            operation_id, reference = line.split()
            found.setdefault(operation_id, []).append(reference)
        return found

    def effects(self) -> Counter[str]:
        """How many effects each operation has."""
        return Counter({operation_id: len(some) for operation_id, some in self.references().items()})

    def look(self, request: ProbeRequest) -> Any:
        """What an authoritative read says."""
        match self.references().get(request.operation_id, []):
            case []:
                return Absent()
            case [reference]:
                return Found(reference=reference, matched_on=("operation_id",))
            case several:
                return Ambiguous(f"{len(several)} effects")


class Tools:
    """The tools of these tests, alike in every process."""

    def __init__(self, provider: Provider) -> None:
        self.registry = ToolRegistry()
        bounds: dict[str, Any] = {
            "effect": Effect(kind="payment.create"),
            "first_check_after": 0.1,
            "backoff": 1.0,
            "max_interval": 0.2,
            "safe_window": SAFE_WINDOW_S,
            "max_checks": 100,
            "reference_field": "id",
            "receipt_fields": ("id",),
            "reference_pattern": r"re_[0-9a-f]{32}",
            "outcome_probe": Probe(tool="pay.find"),
            # How long a call takes is not part of what is asked for.
            "volatile_args": ("seconds",),
        }
        retried: dict[str, Any] = {"on_absent": OnAbsent.OFFER_RETRY, "max_attempts": 3}
        again: dict[str, Any] = {"on_absent": OnAbsent.RETRY, "max_attempts": 3, "stored_args": ("seconds",)}
        made: dict[str, Tool[..., Any]] = {}

        def call(seconds: float) -> dict[str, str]:
            time.sleep(seconds)
            return {"id": provider.commit(current_operation().id)}

        def add(name: str, tool: str, **fields: Any) -> None:
            @effect(tool=tool, **bounds, **fields)
            def pay(seconds: float = 0.0) -> dict[str, str]:
                return call(seconds)

            made[name] = pay

        add("pay", "pay", lease=LEASE_S, **retried)
        add("pay.brief", "pay", lease=0.002, **retried)
        add("pay.verified", "pay.verified", lease=LEASE_S, verify="pay.find", **retried)
        add("pay.once", "pay.once", lease=LEASE_S)
        add("pay.patient", "pay.patient", lease=PATIENT_LEASE_S)
        add("pay.again", "pay.again", lease=2.0, **again)

        @effect(tool="pay", lease=LEASE_S, **bounds, **retried)
        async def pay_async(seconds: float = 0.0) -> dict[str, str]:
            return call(seconds)

        @effect(tool="pay.patient", lease=PATIENT_LEASE_S, **bounds)
        async def pay_patient_async(seconds: float = 0.0) -> dict[str, str]:
            return call(seconds)

        @effect(tool="pay.unanswered", lease=LEASE_S, **bounds)
        def pay_unanswered(seconds: float = 0.0) -> dict[str, str]:
            call(seconds)
            raise TimeoutError("the answer was lost")

        self._named = {
            **made,
            "pay.async": pay_async,
            "pay.patient.async": pay_patient_async,
            "pay.unanswered": pay_unanswered,
        }
        for name in ("pay", "pay.verified", "pay.once", "pay.patient", "pay.again", "pay.unanswered"):
            self.registry.add(self._named[name]).probe(provider.look)
        made["pay.verified"].verify(provider.look)

    def named(self, name: str) -> Tool[..., Any]:
        """A tool by the name that these tests have for it; some are the same tool to the ledger."""
        return self._named[name]
