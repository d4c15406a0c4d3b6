"""One decision of a person onto the log, and the answer of the fold to it."""

import time
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Final, TypeVar

import msgspec

from landed.adapters.postgres.statements import statement
from landed.core.events import Event
from landed.ports.log import AppendFailed, EventLog
from landed.wire.errors import EncodeError
from landed.wire.ids import with_event_id
from landed_services.people.errors import NotSeenYet, PeopleError

APPEND_TIMEOUT_S: Final = 30.0
SEEN_WITHIN_S: Final = 15.0
_LOOK_EVERY_S: Final = 0.05
_E = TypeVar("_E", bound=Event)


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """What the fold made of a decision."""

    accepted: bool
    reason: str | None
    at_ms: int
    """Append time of the log."""


def put(log: EventLog, connection: Any, event: Event, *, seen_within_s: float = SEEN_WITHIN_S) -> Folded:
    """Appends *event* and waits until the view shows what the fold made of it. The same decision again is the same event.

    Raises:
        PeopleError: a field breaks a rule of the log.
        NotSeenYet: it is on the log, and no projector has folded it within *seen_within_s* seconds.
        AppendFailed: nobody knows whether it is on the log.
    """
    try:
        named = with_event_id(event)
    except EncodeError as error:
        raise PeopleError(str(error)) from None
    try:
        appended = log.append(named).result(APPEND_TIMEOUT_S)
    except FutureTimeout:
        raise AppendFailed(
            f"not acknowledged within {APPEND_TIMEOUT_S:g} s: it may be on the log; the same again is safe"
        ) from None
    place = {"partition": appended.position.partition, "log_offset": appended.position.offset}
    until_s = time.monotonic() + seen_within_s
    while True:
        row = connection.execute(statement("event_folded"), place).fetchone()
        if row is not None:
            return Folded(accepted=row[0], reason=row[1], at_ms=appended.at_ms)
        if time.monotonic() >= until_s:
            where = f"partition {appended.position.partition}, offset {appended.position.offset}"
            raise NotSeenYet(f"recorded on the log ({where}), and no projector has folded it yet: is one running?")
        time.sleep(_LOOK_EVERY_S)
