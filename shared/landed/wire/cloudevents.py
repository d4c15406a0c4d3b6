"""The attributes of CloudEvents 1.0 as headers of a record, so that tools which know nothing of this ledger can route it.

Binary content mode of the Kafka protocol binding: each attribute is a header of its own, and the value stays as it is. Readers of
the ledger do not look at them. There is no `time`: only the log's append time counts, and the record carries that already.

Source: CloudEvents 1.0.2, "Kafka Protocol Binding"; docs/events.md.
"""

from functools import cache, lru_cache
from typing import Final

import landed_schemas
from landed.core.events import TYPE_OF, Event
from landed.wire.keys import encoded

SPECVERSION: Final = "ce_specversion"
ID: Final = "ce_id"
SOURCE: Final = "ce_source"
TYPE: Final = "ce_type"
SUBJECT: Final = "ce_subject"
CONTENT_TYPE: Final = "content-type"

_Header = tuple[str, bytes]


def cloud_event(event: Event) -> tuple[_Header, ...]:
    """Headers of *event*. Raises EncodeError where its tenant is no text that UTF-8 can carry."""
    specversion, type_, content_type = _of_kind(type(event))
    about = event.operation_id or event.route
    subject = ((SUBJECT, about.encode()),) if about else ()
    return specversion, (ID, event.event_id.encode()), _source(event.tenant_id), type_, *subject, content_type


@cache
def _of_kind(kind: type[Event]) -> tuple[_Header, _Header, _Header]:
    """What all events of a kind have alike: their type is the full name of their schema."""
    name: str = landed_schemas.schemas()[TYPE_OF[kind]]["name"]
    return (SPECVERSION, b"1.0"), (TYPE, name.encode("ascii")), (CONTENT_TYPE, b"application/avro")


@lru_cache(maxsize=16_384)
def _source(tenant_id: str) -> _Header:
    """A URI reference for the tenant's part of the ledger; the ledger itself where there is none."""
    return SOURCE, f"//landed/tenants/{encoded('tenant_id', tenant_id).decode('ascii')}".encode() if tenant_id else b"//landed"
