"""A record can be a CloudEvent, for tools that know nothing of the ledger."""

from typing import Any

import pytest

import landed_schemas
from landed.core.events import CATALOGUE, Event, Heartbeat, LeaseRenewed, PolicyChanged
from landed.wire.cloudevents import cloud_event
from landed.wire.mac import UNSIGNED
from landed.wire.records import write

ENVELOPE: dict[str, Any] = {"event_id": "e1", "tenant_id": "acme & söhne", "route": "trip-1", "actor": "worker-1"}
RENEWED = LeaseRenewed(**ENVELOPE, operation_id="refund:ü", claim_id="c1", attempt=1, lease_number=1, lease_ms=30_000)


def test_a_record_carries_the_attributes_of_a_cloud_event() -> None:
    out = write(RENEWED, ring=UNSIGNED, nonce="n1", partitions=1, as_cloud_event=True)
    assert {name: value.decode() for name, value in out.headers if not name.startswith("landed-")} == {
        "ce_specversion": "1.0",
        "ce_id": "e1",
        "ce_source": "//landed/tenants/acme%20%26%20s%C3%B6hne",
        "ce_type": "landed.events.v1.LeaseRenewed",
        "ce_subject": "refund:ü",
        "content-type": "application/avro",
    }


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (PolicyChanged(**{**ENVELOPE, "route": "policy:tool:x"}, scope="tool:x", who="anna", why="audit"), b"policy:tool:x"),
        (Heartbeat(event_id="h", tenant_id="", route="", actor="projector"), None),
    ],
)  # fmt: skip
def test_the_subject_is_the_route_where_there_is_no_operation_and_missing_without_either(
    event: Event, expected: bytes | None
) -> None:
    assert dict(cloud_event(event)).get("ce_subject") == expected


def test_what_belongs_to_no_tenant_comes_from_the_ledger_itself() -> None:
    assert dict(cloud_event(Heartbeat(event_id="h", tenant_id="", route="", actor="p")))["ce_source"] == b"//landed"


def test_every_event_of_the_catalogue_has_a_type_of_its_own() -> None:
    assert len({schema["name"] for schema in landed_schemas.schemas().values()}) == len(CATALOGUE)
