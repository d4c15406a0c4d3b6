"""Leases of calls that run: counted on the monotonic clock from the moment the claim was sent, and renewed in the background.

The holder stops before the log does: the log counts a lease from its append time, the holder from before that. A renewal counts
from when its event was first sent, and only if the log took it before the lease was over on the log's clock.

Source: docs/semantics.md §2, §3 (`lease_renewed`).
"""

import threading
from concurrent.futures import Future
from typing import Final

from landed.core.events import LeaseRenewed
from landed.core.verdict import LET_THROUGH
from landed.ports import Appended, Clock, EventLog
from landed.sdk.schedule import Schedule
from landed.sdk.token import Execute
from landed.testing.failure_points import reach
from landed.wire.ids import with_event_id

_RENEW_AT: Final = 0.5
"""Share of a lease that may be left when it is renewed."""
_AGAIN_AFTER: Final = 0.1
"""Share of a lease after which a renewal that failed is sent again."""


class Lease:
    """The lease of one granted call. `end_s` only ever rises."""

    def __init__(self, token: Execute, clock: Clock) -> None:
        longest_s = token.contract.longest_processing or token.contract.deadline
        self.token: Final = token
        self.lease_s: Final = token.lease_ms / 1000
        self.end_s: float = token.sent_s + self.lease_s
        self.limit_s: Final = max(self.end_s, token.sent_s + longest_s)
        """It is never renewed beyond this: `longest_processing` where declared, else `deadline`."""
        self.log_end_ms: int = token.granted_at_ms + token.lease_ms
        self.number = 0
        self.dropped = False
        self._clock = clock

    def remaining_s(self) -> float:
        """Seconds left; zero or less: over."""
        return self.end_s - self._clock.monotonic()


class Leases:
    """Renews leases while their calls run."""

    def __init__(self, log: EventLog, schedule: Schedule, clock: Clock, *, actor: str) -> None:
        self._log = log
        self._schedule = schedule
        self._clock = clock
        self._actor = actor
        self._lock = threading.Lock()
        self._due: dict[Lease, float] = {}
        """When each lease that is kept is to be renewed, in seconds of the clock. Most are dropped long before: a timer for each
        would wake a thread for nothing."""
        self._looks_at_s: float | None = None
        """When it is looked next which of them is due; None: nothing is scheduled."""

    def keep(self, token: Execute) -> Lease:
        """The lease of *token*, renewed from now on until it is dropped."""
        lease = Lease(token, self._clock)
        self._next(lease)
        return lease

    def drop(self, lease: Lease) -> None:
        """No renewal any more; repeated calls do nothing."""
        with self._lock:
            lease.dropped = True
            self._due.pop(lease, None)

    def _next(self, lease: Lease) -> None:
        # What observe mode let through holds no lease on the log that could be renewed.
        if lease.end_s >= lease.limit_s or lease.token.attempt == LET_THROUGH:
            return
        due_s = lease.end_s - lease.lease_s * _RENEW_AT
        with self._lock:
            if lease.dropped:
                return
            self._due[lease] = due_s
            sooner = self._looks_at_s is None or due_s < self._looks_at_s
            if sooner:
                self._looks_at_s = due_s
        if sooner:
            self._schedule.at(due_s, self._look)

    def _look(self) -> None:
        """Renews what is due, and comes again when the next is."""
        now_s = self._clock.monotonic()
        with self._lock:
            due = [lease for lease, due_s in self._due.items() if due_s <= now_s]
            for lease in due:
                del self._due[lease]
            next_s = self._looks_at_s = min(self._due.values(), default=None)
        if next_s is not None:
            self._schedule.at(next_s, self._look)
        for lease in due:
            self._renew(lease)

    def _renew(self, lease: Lease) -> None:
        with self._lock:
            if lease.dropped:
                return
        token = lease.token
        event = LeaseRenewed(
            event_id="",
            tenant_id=token.tenant_id,
            route=token.route,
            operation_id=token.operation_id,
            group_id=token.group_id,
            actor=self._actor,
            seen_version=token.version,
            claim_id=token.claim_id,
            attempt=token.attempt,
            lease_number=lease.number + 1,
            lease_ms=token.lease_ms,
        )
        self._send(lease, with_event_id(event), sent_s=self._clock.monotonic())

    def _send(self, lease: Lease, event: LeaseRenewed, *, sent_s: float) -> None:
        with self._lock:
            if lease.dropped:
                return
        if lease.remaining_s() <= 0:
            return

        def done(future: Future[Appended]) -> None:
            if future.exception() is None:
                self._renewed(lease, event, future.result(), sent_s)
            else:
                self._again(lease, event, sent_s)

        try:
            acknowledged = self._log.append(event)
        except Exception:
            # Whatever kept the event from being sent, the lease only gets shorter by it.
            self._again(lease, event, sent_s)
            return
        acknowledged.add_done_callback(done)

    def _again(self, lease: Lease, event: LeaseRenewed, sent_s: float) -> None:
        due_s = self._clock.monotonic() + lease.lease_s * _AGAIN_AFTER
        # The first sending may be on the log: the renewal counts from it, whichever copy is acknowledged.
        self._schedule.at(due_s, lambda: self._send(lease, event, sent_s=sent_s))

    def _renewed(self, lease: Lease, event: LeaseRenewed, appended: Appended, sent_s: float) -> None:
        if appended.at_ms >= lease.log_end_ms:
            return  # came too late on the log's clock: the fold refuses it
        lease.number = event.lease_number
        limit_ms = lease.token.granted_at_ms + round((lease.limit_s - lease.token.sent_s) * 1000)
        lease.log_end_ms = max(lease.log_end_ms, min(appended.at_ms + event.lease_ms, limit_ms))
        lease.end_s = max(lease.end_s, min(sent_s + lease.lease_s, lease.limit_s))
        reach("sdk.lease_renewed")
        self._next(lease)
