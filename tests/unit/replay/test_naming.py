"""An operation is meant by its id, else by a beginning that no other id has; what several ids begin with is refused."""

import pytest

from landed.wire.keys import RecordKey, build_key
from landed_services.replay.errors import SeveralFit
from landed_services.replay.naming import Named
from landed_services.replay.scope import Scope


def meant(typed: str, *ids: str) -> Scope:
    named = Named(Scope(tenant_id="acme", operation_id=typed))
    for tenant_id, names in (("acme", ids), ("other", ["book-x", typed])):
        for one in names:
            key = RecordKey(tenant_id=tenant_id, route="trip", operation_id=one, event_id="e", nonce="n")
            named.take(build_key(key))
    return named.scope


def test_a_beginning_that_one_id_has_means_it() -> None:
    scope = meant("book-1", "book-17", "pay-1")
    assert (scope.operation_id, scope.routes) == ("book-17", frozenset({("acme", "trip")}))


def test_a_whole_id_means_itself_whatever_else_begins_with_it() -> None:
    assert meant("book-1", *(f"book-1{number}" for number in range(20)), "book-1").operation_id == "book-1"


def test_what_several_ids_begin_with_is_refused_and_some_are_listed() -> None:
    with pytest.raises(SeveralFit, match=r"fits several: book-17, book-18$"):
        meant("book", "book-17", "book-18")
    with pytest.raises(SeveralFit, match=r"book-10, book-11, book-12, book-13, book-14, …$"):
        meant("book", *(f"book-{number}" for number in range(10, 30)))


def test_what_no_id_begins_with_finds_nothing() -> None:
    scope = meant("boat", "book-17")
    assert (scope.operation_id, scope.routes) == ("boat", frozenset())
