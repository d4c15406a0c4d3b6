"""Event ids that follow from what is said, so that saying it again after an ambiguous append changes nothing."""

import hashlib
from typing import Final, TypeVar

import msgspec

from landed.core.events import TYPE_OF, Event
from landed.wire.codec import codec

_E = TypeVar("_E", bound=Event)
_LABEL: Final = b"landed.event_id.v1"


def derive_event_id(event: Event) -> str:
    """Id of *event*, whatever id it has: 32 hexadecimal digits of a SHA-256 over its type and all its other fields.

    So actor, operation, attempt and `seen_version` are in it: a retry of the same append has the same id, and the same
    words said again later, by somebody who has seen more, have another.

    Raises:
        EncodeError: as `codec.encode`.
    """
    return _id_of(event, _bare_body(event))


def with_event_id(event: _E) -> _E:
    """*event* under the id that `derive_event_id` gives it."""
    body = _bare_body(event)
    identified = msgspec.structs.replace(event, event_id=_id_of(event, body))
    codec().ready(identified, body)
    return identified


def _bare_body(event: Event) -> bytes:
    return codec().encode_body(msgspec.structs.replace(event, event_id="") if event.event_id else event)


def _id_of(event: Event, body: bytes) -> str:
    return hashlib.sha256(b"\0".join((_LABEL, TYPE_OF[type(event)].encode("ascii"), body))).hexdigest()[:32]
