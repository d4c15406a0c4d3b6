"""Event ids that follow from what is said."""

from typing import Any

import msgspec
import pytest

from landed.core.events import BreakerChanged, Genesis, GroupClosed, LeaseRenewed, PolicyChanged
from landed.wire.ids import derive_event_id, with_event_id

ENVELOPE: dict[str, Any] = {"event_id": "", "tenant_id": "acme", "route": "trip-1", "actor": "worker-1"}
RENEWED = LeaseRenewed(**ENVELOPE, operation_id="refund:42", claim_id="c1", attempt=1, lease_number=1, lease_ms=30_000)


def test_an_id_has_32_hexadecimal_digits_and_never_changes() -> None:
    """A retry by the next release must fold to nothing too."""
    assert derive_event_id(RENEWED) == "6be645227dfabac92827ded31d856053"


def test_the_same_said_again_has_the_same_id_whatever_id_it_carries() -> None:
    named = with_event_id(RENEWED)
    assert named.event_id == derive_event_id(RENEWED)
    assert msgspec.structs.replace(named, event_id="") == RENEWED
    assert with_event_id(named) == named


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("actor", "worker-2"),
        ("operation_id", "refund:43"),
        ("attempt", 2),
        ("lease_ms", 1),
        ("seen_version", 1),
        ("tenant_id", "b"),
        ("route", "r"),
        ("group_id", "trip-1"),
        ("policy_version", "7"),
    ],
)
def test_whoever_says_something_else_or_has_seen_more_has_another_id(field: str, other: object) -> None:
    assert derive_event_id(msgspec.structs.replace(RENEWED, **{field: other})) != derive_event_id(RENEWED)


def test_the_type_is_part_of_the_id() -> None:
    fields = {**ENVELOPE, "scope": "refund", "who": "anna"}
    assert derive_event_id(PolicyChanged(**fields, why="incident")) != derive_event_id(BreakerChanged(**fields))


def test_the_order_in_which_a_map_was_filled_is_not() -> None:
    one = Genesis(**ENVELOPE, partitions=1, settings={"a": "1", "b": "2"})
    two = Genesis(**ENVELOPE, partitions=1, settings={"b": "2", "a": "1"})
    assert derive_event_id(one) == derive_event_id(two)


def test_the_type_of_the_event_is_kept() -> None:
    assert isinstance(with_event_id(GroupClosed(**ENVELOPE, by="anna")), GroupClosed)
