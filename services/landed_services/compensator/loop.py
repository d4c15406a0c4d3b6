"""The compensator's loop: takes unwinding groups from the view, asks the core what is next about each, and does it.

It holds no state of its own: what is due is read from the view, inverses are claimed as anybody claims them, and the fold
decides. So it may be killed at any step, and a second one on the same group is told `in_flight`. No step waits for another:
inverses and appends are begun in one tick and taken up in a later one.
"""

import logging
import threading
from collections import deque
from concurrent.futures import Future
from typing import Final, Protocol

from landed.adapters.postgres.rows import group_id_of
from landed.adapters.postgres.unwinding import BEGINNING, UnwindingGroup
from landed.core.compensating import UNMET, Action, HandOver, Leave, Means, Perform, Wait, handed_over, next_actions
from landed.core.state import Route
from landed.ports.log import Appended, EventLog
from landed.ports.time import Clock
from landed.sdk.registry import ToolRegistry
from landed.sdk.results import Refused
from landed.testing.failure_points import reach
from landed.wire.ids import with_event_id
from landed_services.compensator.inverses import InverseRunner, Job, Performed
from landed_services.metrics import Health
from landed_services.work.budgets import Budgets
from landed_services.work.holds import Holds

_LOG = logging.getLogger("landed.compensator")
_FIRST_PAUSE_S: Final = 0.5
"""How long the view may take to show what became of an inverse before it is asked for again; doubled while it does not."""
_LONGEST_PAUSE_S: Final = 30.0
_REFUSED_LONGEST_S: Final = 5.0
"""What the pause grows to while the ledger refuses claims of an inverse; whatever changes meanwhile is waited for as long."""
_AGAIN_S: Final = 1.0
"""Seconds after which the groups are looked through once more when nothing woke this process."""
_GAP_S: Final = 0.05

_Key = tuple[str, str, str]
_Version = tuple[int, ...]


class UnwindingGroups(Protocol):
    """`landed.adapters.postgres.PostgresUnwindingGroups`."""

    def page(self, *, limit: int, after: tuple[str, str] = BEGINNING) -> list[UnwindingGroup]: ...


class Compensator:
    """One compensator; `run` until stopped, or `tick` by hand."""

    def __init__(
        self,
        log: EventLog,
        groups: UnwindingGroups,
        runner: InverseRunner,
        registry: ToolRegistry,
        clock: Clock,
        *,
        budgets: Budgets | None = None,
        page: int = 64,
        tick_s: float = 0.25,
        health: Health | None = None,
    ) -> None:
        """
        Args:
            registry: the team's tools; an inverse that is not among them goes to a person.
            budgets: how much each provider may be asked; None: as much as there is room for.
            page: groups read at once; no more are held.
            tick_s: longest pause between two ticks, seconds.
            health: told of each turn of `run`.
        """
        self._log = log
        self._groups = groups
        self._runner = runner
        self._registry = registry
        self._clock = clock
        self._budgets = budgets
        self._page = page
        self._tick_s = tick_s
        self._after = BEGINNING
        self._passed_s = float("-inf")
        self._holds: Holds[_Key, _Version] = Holds(_FIRST_PAUSE_S)
        self._acknowledged: deque[tuple[_Key, _Version]] = deque()
        self._heard: tuple[int, float] | None = None
        self._wake = threading.Event()
        self._woken = True
        self._health = health or Health()
        self.turned_s = clock.monotonic()
        """When the loop made its last turn, by the monotonic clock."""

    def wake(self) -> None:
        """Something was appended that may be due."""
        self._woken = True
        self._wake.set()

    def shared(self) -> None:
        """The work was divided anew among the compensators."""
        self._after = BEGINNING
        self.wake()

    def heard(self, at_ms: int) -> None:
        """The log has just appended something at *at_ms*: its times decide, whatever this machine's clock says."""
        self._heard = at_ms, self._clock.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Works until *stop* is set; a failing look at the view is logged and tried again."""
        while not stop.is_set():
            self._health.beat()
            try:
                busy = self.tick()
                self._health.ready()
            except Exception as error:
                about = {"action": "compensator_error", "error_class": type(error).__name__}
                _LOG.error("compensator pauses", extra=about, exc_info=True)
                busy = False
                self._health.not_ready(type(error).__name__)
                stop.wait(self._tick_s)
            if not busy:
                self._wake.wait(_GAP_S if self._woken or self._after != BEGINNING else self._tick_s)
                self._wake.clear()

    def tick(self) -> bool:
        """Takes up what has come back, and begins what is due now; whether there was anything."""
        self.turned_s = self._clock.monotonic()
        busy = self._take_performed()
        self._take_acknowledged()
        return self._look_through() or busy

    # ---- groups -------------------------------------------------------------------------------------------------------

    def _look_through(self) -> bool:
        """One page of the groups; a pass begins anew when something woke this process, or after a while."""
        now_s = self._clock.monotonic()
        if self._after == BEGINNING:
            if now_s < self._passed_s + (_GAP_S if self._woken else _AGAIN_S):
                return False
            self._woken, self._passed_s = False, now_s
        found = self._groups.page(limit=self._page, after=self._after)
        last = found[-1].route if len(found) == self._page else None
        self._after = BEGINNING if last is None else (last.tenant_id, last.route)
        busy = False
        for group in found:
            try:
                busy = self._group(group) or busy
            except Exception as error:
                # One group that cannot be worked on must not end the work on all others. The error's text may hold content.
                about = {"action": "group_failed", "tenant_id": group.route.tenant_id, "error_class": type(error).__name__}
                _LOG.error("nothing can be done about a group: %s", type(error).__name__, extra=about)
        return busy

    def _group(self, group: UnwindingGroup) -> bool:
        means = Means(
            contract_of=lambda name: None if (tool := self._registry.tool(name)) is None else tool.contract,
            wanted=lambda name: () if (tool := self._registry.tool(name)) is None else tool.argument_names,
            allowed=group.policies.is_automatic,
        )
        busy, now_ms = False, self._log_now_ms()
        for action in next_actions(group.route, means, now_ms=now_ms):
            name = action.operation_id
            if self._holds.free(_key(group.route, name), _version(group.route, name), self._clock.monotonic()):
                busy = self._begin(group.route, action, now_ms) or busy
        return busy

    def _begin(self, route: Route, action: Action, now_ms: int) -> bool:
        match action:
            case Perform():
                return self._perform(Job(route, action))
            case HandOver():
                return self._hand_over(route, action.operation_id, action.why)
            case Wait():
                self._back_off(route, action.operation_id, at_least_s=(action.until_ms - now_ms) / 1000)
                return False
            case Leave():
                return False  # shown by the plan: the caller or a person performs it

    def _perform(self, job: Job) -> bool:
        tool, key = job.action.tool, _key(job.route, job.action.operation_id)
        if self._runner.is_full or self._runner.is_stuck(tool):
            return False
        if self._budgets is not None and not self._budgets.begin(tool):
            return False  # it stays due
        self._holds.take(key)
        if self._runner.start(job, when_done=self.wake):
            return True
        self._holds.release(key)
        if self._budgets is not None:
            self._budgets.end(tool)
        return False

    def _hand_over(self, route: Route, operation_id: str, why: str) -> bool:
        forward = route.operation(operation_id)
        event = handed_over(route, forward, why, group_id=group_id_of(route, forward))
        if event is None:
            self._back_off(route, operation_id)
            return False
        key, version = _key(route, operation_id), _version(route, operation_id)
        self._holds.take(key)
        reach("compensator.before_hand_over")
        _LOG.info("handed over", extra={"action": "inverse_handed_over", "why": why, **_about(route, operation_id)})
        appended = self._log.append(with_event_id(event))
        reach("compensator.handed_over")

        def acknowledged(_: Future[Appended]) -> None:
            # Whether it is on the log or not: the view shows it, or it is said again, which changes nothing twice.
            self._acknowledged.append((key, version))
            self.wake()

        appended.add_done_callback(acknowledged)
        return True

    # ---- what comes back ----------------------------------------------------------------------------------------------

    def _take_performed(self) -> bool:
        back = self._runner.take()
        for one in back:
            if self._budgets is not None:
                self._budgets.end(one.job.action.tool)
            reach("compensator.performed")
            self._holds.release(_key(one.job.route, one.job.action.operation_id))
            self._over(one)
        return bool(back)

    def _over(self, one: Performed) -> None:
        """What a call came to is on the log already; only what was not performed at all is told."""
        route, action = one.job.route, one.job.action
        if one.cannot is not None:
            self._hand_over(route, action.operation_id, one.cannot)
        elif one.unmet and action.gives_up_at_ms is not None and self._log_now_ms() >= action.gives_up_at_ms:
            self._hand_over(route, action.operation_id, UNMET)
        else:
            longest_s = _FIRST_PAUSE_S
            if isinstance(one.result, Refused):
                about = {"action": "inverse_refused", "reason": one.result.reason, **_about(route, action.operation_id)}
                _LOG.info("refused: %s", one.result.reason, extra=about)
                longest_s = _REFUSED_LONGEST_S
            left_s = float("inf")
            if one.unmet:
                longest_s = _LONGEST_PAUSE_S
                if action.gives_up_at_ms is not None:
                    left_s = (action.gives_up_at_ms - self._log_now_ms()) / 1000
            # Firm after a claim: it changes the version by itself, and the view may still lack what came of it.
            self._back_off(route, action.operation_id, longest_s=longest_s, at_most_s=left_s, firm=not one.unmet)

    def _take_acknowledged(self) -> None:
        while self._acknowledged:
            key, version = self._acknowledged.popleft()
            self._holds.back_off(key, version, self._clock.monotonic(), longest_s=_LONGEST_PAUSE_S)

    # ---- pauses -------------------------------------------------------------------------------------------------------

    def _back_off(
        self,
        route: Route,
        operation_id: str,
        *,
        longest_s: float = _LONGEST_PAUSE_S,
        at_least_s: float = 0.0,
        at_most_s: float = float("inf"),
        firm: bool = False,
    ) -> None:
        key, version, now_s = _key(route, operation_id), _version(route, operation_id), self._clock.monotonic()
        self._holds.back_off(key, version, now_s, longest_s=longest_s, at_least_s=at_least_s, at_most_s=at_most_s, firm=firm)

    def _log_now_ms(self) -> int:
        if self._heard is None:
            return self._clock.now_ms()
        at_ms, heard_s = self._heard
        return at_ms + int((self._clock.monotonic() - heard_s) * 1000)


def _key(route: Route, operation_id: str) -> _Key:
    return route.tenant_id, route.route, operation_id


def _version(route: Route, operation_id: str) -> _Version:
    """What tells one look of the view at a step from the next: of the group, of the operation, and of its inverses."""
    inverses = route.inverses_of(operation_id)
    return route.version, route.operation(operation_id).version, len(inverses), sum(one.version for one in inverses)


def _about(route: Route, operation_id: str) -> dict[str, str]:
    return {"tenant_id": route.tenant_id, "operation_id": operation_id}
