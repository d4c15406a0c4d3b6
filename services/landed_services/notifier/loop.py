"""The notifier: one thread for each receiver, so that one that hangs holds up no other. Everything it knows stands in the outbox.

It may die at any step. Before a try is sent it is on record, and nobody else takes the notification for a while; a try whose end
was never recorded is made again, under the same id, by which the receiver knows a repeat.
"""

import logging
import random
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from landed.adapters.postgres.notifications import PostgresNotifications, Taken
from landed.core.errors import LandedError
from landed.testing.failure_points import reach
from landed_services.metrics import Health
from landed_services.notifier.payload import payload_of
from landed_services.notifier.receivers import Receiver
from landed_services.notifier.sending import send

_LOG = logging.getLogger("landed.notifier")


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How often is looked and tried, seconds."""

    look: float = 1.0
    """Between two looks at the view."""
    limit: float = 10.0
    """One try, at the most."""
    first_wait: float = 5.0
    """After the first try that failed; doubled after each, with jitter."""
    longest_wait: float = 3_600.0
    give_up_after: float = 259_200.0
    """From when it happened."""
    keep: float = 2_592_000.0
    """How long what was told or given up stays on record; longer than `give_up_after`."""
    between_cleanings: float = 60.0


USUAL: Final = Pace()
HOLD_BEYOND_S: Final = 5.0
"""How much longer than a try takes nobody else takes the notification."""


class Notifier:
    """Tells receivers; `run` until stopped, or `tick` by hand."""

    def __init__(
        self,
        receivers: Sequence[Receiver],
        outbox: PostgresNotifications,
        *,
        pace: Pace = USUAL,
        jitter: Callable[[], float] = random.random,
        health: Health | None = None,
    ) -> None:
        self._receivers = tuple(receivers)
        self._outbox = outbox
        self._pace = pace
        self._jitter = jitter
        self._health = health or Health()

    def run(self, stop: threading.Event) -> None:
        """Works until *stop* is set, then ends after the tries that are under way."""
        self._outbox.know({one.name: one.tenant_id for one in self._receivers})
        cleaner = threading.Thread(target=self._clean, args=(stop,), name="landed-forgets", daemon=True)
        threads = [
            threading.Thread(target=self._serve, args=(receiver, stop), name=f"landed-tells-{receiver.name}", daemon=True)
            for receiver in self._receivers
        ]
        threads.append(cleaner)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _clean(self, stop: threading.Event) -> None:
        """Forgets what was told long ago, a little at a time."""
        while not stop.is_set():
            try:
                forgotten = self._outbox.forget(keep_ms=round(self._pace.keep * 1000))
            except LandedError as error:
                _LOG.error("nothing is forgotten", extra={"action": "notifier_error", "error_class": type(error).__name__})
                forgotten = 0
            if forgotten:
                _LOG.info("forgotten", extra={"action": "notifications_forgotten", "count": forgotten})
            else:
                stop.wait(self._pace.between_cleanings)

    def _serve(self, receiver: Receiver, stop: threading.Event) -> None:
        while not stop.is_set():
            self._health.beat()
            try:
                busy = self.tick(receiver, stop)
                self._health.ready()
            except LandedError as error:
                self._health.not_ready("its last look at the view failed")
                about = {"action": "notifier_error", "receiver": receiver.name, "error_class": type(error).__name__}
                _LOG.error("the notifier pauses", extra=about)
                busy = False
            except Exception:
                _LOG.exception("the notifier pauses", extra={"action": "notifier_error", "receiver": receiver.name})
                busy = False
            if not busy:
                stop.wait(self._pace.look)

    def tick(self, receiver: Receiver, stop: threading.Event | None = None) -> bool:
        """Puts what is to be told into the outbox and tells what is due; whether anything was told or tried."""
        found = self._outbox.to_tell(
            receiver.name,
            kinds=receiver.kinds,
            aged_ms=receiver.aged_ms,
            inverse_before_ms=receiver.inverse_before_ms,
            missed_ms=round(self._pace.give_up_after * 1000),
        )
        for one in found:
            self._outbox.put(receiver.name, one, payload_of(one))
        tried = False
        while stop is None or not stop.is_set():
            taken = self._outbox.take(receiver.name, hold_ms=round((self._pace.limit + HOLD_BEYOND_S) * 1000))
            if taken is None:
                return tried
            self._tell(receiver, taken)
            tried = True
        return tried

    def _tell(self, receiver: Receiver, taken: Taken) -> None:
        reach("notifier.before_send")
        answer = send(
            receiver,
            webhook_id=taken.webhook_id,
            payload=taken.payload,
            at=datetime.now(tz=UTC),
            limit_s=self._pace.limit,
        )
        reach("notifier.sent")
        about = {
            "action": "notification",
            "receiver": receiver.name,
            "tenant_id": taken.tenant_id,
            "kind": taken.kind,
            "webhook_id": taken.webhook_id,
            "number": taken.number,
            "result": answer.result,
        }
        if answer.delivered:
            _LOG.info("told", extra=about)
            self._outbox.ended(taken, result=answer.result, state="delivered")
        elif answer.gone or self._too_late(taken):
            _LOG.error("given up", extra=about)
            self._outbox.ended(taken, result=answer.result, state="given_up")
        else:
            _LOG.warning("not told, tried again", extra=about)
            self._outbox.ended(taken, result=answer.result, state="waiting", wait_ms=self._wait_ms(taken.number))

    def _too_late(self, taken: Taken) -> bool:
        return taken.now_ms - taken.made_at_ms >= self._pace.give_up_after * 1000

    def _wait_ms(self, number: int) -> int:
        """Exponential, up to the longest; half of it by chance, so that receivers that come back are not stormed."""
        wait_s = min(self._pace.first_wait * 2.0 ** min(number - 1, 30), self._pace.longest_wait)
        return round(wait_s * (0.5 + self._jitter() / 2) * 1000)
