"""Tries a contract on a provider whose effects cost nothing: is the key honoured, how late is an effect seen, is absence
reliable, is a receipt stable, is an effect found whose answer was lost.

Where the provider is reached by plain HTTP, a fault proxy stands between; it also tells whether the tool goes where it was led.
"""

import secrets
import time
from collections.abc import Mapping
from contextlib import ExitStack
from ipaddress import ip_address
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from landed.core.contract import Problem
from landed.core.contract_weak import Weakness
from landed.core.reconciliation import Absent, Found, ProbeAnswer
from landed.core.vocabulary import EffectStatus, ReadKind
from landed.sdk.errors import SettingsError
from landed.sdk.results import Confirmed, Rejected, Result, Unknown
from landed.sdk.staging import Stage
from landed.sdk.tools import ProbeFunction, Tool
from landed.testing.fault_proxy import CommitThenDrop, FaultProxy
from landed_services.progress import Say, Summed
from landed_services.trust.results import DrillResult, DrillStopped, digest_of
from landed_services.trust.stand import call, effects_of, look

LOOKS_AFTER: Final = 5
"""Looks after the first that saw an effect: each must see it, and the same."""
LOOK_EVERY_S: Final = 0.05
LAG_TOLERANCE_S: Final = 0.25
"""A look takes a moment, and is made every `LOOK_EVERY_S`: a lag that is longer by less is no difference."""


def is_local(url: str) -> bool:
    """Whether *url* is of this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def place_of(url: str) -> str:
    """Scheme, host and port of *url*, without what may be a secret in it.

    Raises:
        SettingsError: it is no http or https URL.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError("drill", [Problem("stage.url", "must be http://host[:port] or https://host[:port]")])
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def drill(
    tool: Tool[..., Any], stage: Stage, *, samples: int = 3, wait_s: float = 10.0, by: str = "", say: Say | None = None
) -> DrillResult:
    """What *tool* and its look-up show on *stage*, and where its contract declares something else.

    Args:
        samples: calls of which the lag is measured.
        wait_s: how long an effect is waited for at most, in seconds.
        by: who tries it.
        say: told how many of its steps are done: a first look, the samples, the call made twice, the lost answer.

    Raises:
        SettingsError: the tool has no look-up, or the stage no usable address.
        DrillStopped: the tool does not go where the stage leads it, or has no effect there.
    """
    if tool.contract.read_only:
        raise SettingsError("drill", [Problem(f"{tool.name}.read_only", "a read has no effect to try")])
    if tool.probe_function is None:
        raise SettingsError("drill", [Problem(f"{tool.name}.outcome_probe", "nothing can be seen without a look-up")])
    place = place_of(stage.url)
    parts = urlsplit(place)
    with ExitStack() as stack:
        proxy = None
        if parts.scheme == "http":
            proxy = stack.enter_context(FaultProxy(parts.hostname or "", parts.port or 80))
        stage.use(stage.url if proxy is None else proxy.url)
        found = _Drill(tool, tool.probe_function, stage, proxy, wait_s)
        steps = (found.check_the_way, *[found.call_and_look] * samples, found.call_twice, found.lose_an_answer)
        told = Summed(len(steps), say)
        for number, step in enumerate(steps):
            told(0, number)
            step()
        found.compare()
    return DrillResult(
        tool=tool.name,
        contract_digest=digest_of(tool.contract),
        provider=place,
        at_ms=time.time_ns() // 1_000_000,
        by=by,
        samples=samples,
        key=found.key,
        lag_s=found.lag_s,
        absence="reliable" if found.absence_reliable else "unreliable",
        receipt="stable" if found.receipt_stable else "unstable",
        lost_answer=found.lost_answer,
        differences=tuple(dict.fromkeys(found.differences)),
    )


class _Drill:
    """One drill under way: what was seen so far."""

    def __init__(self, tool: Tool[..., Any], probe: ProbeFunction, stage: Stage, proxy: FaultProxy | None, wait_s: float) -> None:
        self._tool = tool
        self._probe = probe
        self._contract = tool.contract
        self._stage = stage
        self._proxy = proxy
        self._wait_s = wait_s
        self._window_s = tool.contract.quiet_after_ms / 1000
        self.key: Literal["honoured", "not_honoured", "not_tried"] = "not_tried"
        self.lag_s: float | None = 0.0
        self.absence_reliable = True
        self.receipt_stable = True
        self.lost_answer: Literal["found", "not_found", "not_tried"] = "not_tried"
        self.differences: list[Weakness] = []

    def differs(self, field: str, what: str) -> None:
        self.differences.append(Weakness(field, what))

    # ---- what is tried --------------------------------------------------------------------------------------------------

    def check_the_way(self) -> None:
        """A read first: a tool that goes elsewhere must not be called. What was never sent must be absent."""
        answer = self._look(_new_id(), self._arguments())
        if self._proxy is not None and not self._proxy.exchanges:
            raise DrillStopped(f"the look-up of {self._tool.name!r} did not go where `Stage.use` led it: nothing was called")
        if not isinstance(answer, Absent):
            self.absence_reliable = False
            self.differs("outcome_probe", f"of an operation that was never sent it says {_said(answer)}, not Absent")

    def call_and_look(self) -> None:
        """A call, the first look that sees its effect, and some after it."""
        operation_id, arguments = _new_id(), self._arguments()
        result = self._call(operation_id, arguments)
        if not isinstance(result, Confirmed):
            raise DrillStopped(f"a call of {self._tool.name!r} at the stage ended as {_ended(result)}: there is nothing to try")
        first = self._first_sight(operation_id, arguments)
        if first is None:
            return
        known = (first.reference, first.receipt)
        if result.reference is not None and first.reference not in (None, result.reference):
            self.receipt_stable = False
            self.differs("reference_field", "the look-up shows another reference than the answer")
        if not set(self._contract.minimum_evidence) <= set(first.matched_on):
            names = ", ".join(first.matched_on) or "nothing"
            self.differs("minimum_evidence", f"the look-up matched on {names}: what it finds goes to a person as a conflict")
        for _ in range(LOOKS_AFTER):
            again = self._look(operation_id, arguments, () if first.reference is None else (first.reference,))
            if isinstance(again, Absent):
                self.absence_reliable = False
                self.differs("outcome_probe.read_kind", "an effect that a look had seen was absent for a later one")
            elif isinstance(again, Found) and (again.reference, again.receipt) != known:
                self.receipt_stable = False
                self.differs("reference_field", "two looks at one effect showed different references or receipts")

    def call_twice(self) -> None:
        """A second call under the same operation id, as after a crash: is there a second effect?"""
        if self._contract.operation_key is None:
            return
        operation_id, arguments = _new_id(), self._arguments()
        first, second = self._call(operation_id, arguments), self._call(operation_id, arguments)
        # Long enough for both to show; whether a look-up takes two of them for ambiguous is no matter here.
        time.sleep(LOOK_EVERY_S + (self._wait_s if self.lag_s is None else self.lag_s))
        effects = effects_of(self._tool, operation_id)
        answered = {result.reference for result in (first, second) if isinstance(result, Confirmed)}
        if effects:
            once = len(effects) == 1 and len(answered) <= 1
        else:
            exists = isinstance(second, Unknown) and second.reason == "already_exists"
            same = isinstance(first, Confirmed) and isinstance(second, Confirmed) and len(answered) == 1
            once = exists or (same and isinstance(self._look(operation_id, arguments), Found))
        self.key = "honoured" if once else "not_honoured"
        if self._contract.key_honoured and not once:
            shown = f"{len(effects)} effects are listed" if effects else f"the second call ended as {_ended(second)}"
            self.differs("operation_key.honoured", f"two calls under one operation id: {shown}")

    def lose_an_answer(self) -> None:
        """A call whose answer is lost after the provider has done its work."""
        if self._proxy is None:
            return
        operation_id, arguments = _new_id(), self._arguments()
        before = len(self._proxy.exchanges)
        self._proxy.arm(CommitThenDrop())
        result = self._call(operation_id, arguments)
        self._proxy.disarm()
        requests = len(self._proxy.exchanges) - before
        if requests > 1:
            self.differs("tool", f"one call sent {requests} requests: something between tool and provider tries again by itself")
        if isinstance(result, Rejected):
            self.differs("no_effect_errors", f"a lost answer counts as proof that nothing happened ({result.reason})")
        seen = self._first_sight(operation_id, arguments)
        self.lost_answer = "not_found" if seen is None else "found"

    # ---- and what the contract says ---------------------------------------------------------------------------------------

    def compare(self) -> None:
        probe = self._contract.outcome_probe
        if self.lag_s is None or probe is None:
            return
        if self.lag_s > probe.lag + LAG_TOLERANCE_S:
            self.differs(
                "outcome_probe.lag", f"an effect was seen {self.lag_s:.2f} s after its answer; declared: {probe.lag:g} s"
            )
        if self.lag_s > self._window_s + LAG_TOLERANCE_S and probe.read_kind is ReadKind.AUTHORITATIVE:
            self.absence_reliable = False
            what = f"an effect was absent {self.lag_s:.2f} s after its answer, and {self._window_s:g} s are believed"
            self.differs("safe_window", what)

    def _first_sight(self, operation_id: str, arguments: Mapping[str, Any]) -> Found | None:
        """The first look that sees the effect, with its lag on record; None when none did in time."""
        began = time.monotonic()
        while True:
            answer = self._look(operation_id, arguments)
            seen_s = time.monotonic() - began
            if isinstance(answer, Found) and answer.status is not EffectStatus.PENDING:
                self.lag_s = None if self.lag_s is None else max(self.lag_s, seen_s)
                return answer
            if seen_s >= self._wait_s:
                self.lag_s = None
                self.absence_reliable = False
                self.differs(
                    "outcome_probe", f"an effect was not seen within {self._wait_s:g} s: the last look said {_said(answer)}"
                )
                return None
            time.sleep(LOOK_EVERY_S)

    def _arguments(self) -> Mapping[str, Any]:
        return self._stage.arguments()

    def _call(self, operation_id: str, arguments: Mapping[str, Any]) -> Result:
        return call(self._tool, operation_id, arguments)

    def _look(self, operation_id: str, arguments: Mapping[str, Any], references: tuple[str, ...] = ()) -> ProbeAnswer:
        return look(self._tool, self._probe, operation_id, arguments, references)


def _new_id() -> str:
    return f"drill:{secrets.token_hex(8)}"


def _said(answer: ProbeAnswer) -> str:
    return type(answer).__name__


def _ended(result: Result) -> str:
    reason = getattr(result, "reason", None)
    return type(result).__name__ + (f" ({reason})" if reason else "")
