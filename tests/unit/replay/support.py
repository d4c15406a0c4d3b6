"""Histories as records of a log, and the story that is told of them."""

from collections.abc import Iterable

from tests.history import History, claim

from landed.core.events import Entry
from landed.wire import records
from landed.wire.mac import KeyRing
from landed.wire.records import Record
from landed_services.reading import Item, read_item
from landed_services.replay.scope import Cut, Scope
from landed_services.replay.telling import Line, Story

RING = KeyRing({"writer-1": b"a secret of thirty-two bytes or so"}, signing="writer-1", mandatory=True)


def record_of(entry: Entry, ring: KeyRing = RING) -> Record:
    """The record that *entry* is read from, on a topic of one partition."""
    offset = entry.position.offset
    out = records.write(entry.event, ring=ring, nonce=f"n{offset}", partitions=1)
    return Record(key=out.key, value=out.value, headers=out.headers, partition=0, offset=offset, timestamp_ms=entry.at_ms)


def items(log: Iterable[Entry], ring: KeyRing = RING) -> list[Item]:
    return [read_item(record_of(one, ring), ring=ring, partitions=1) for one in log]


def told(history: History, scope: Scope | None = None, cuts: tuple[Cut, ...] = ()) -> tuple[Story, list[Line]]:
    story = Story(scope or Scope(), cuts)
    return story, list(story.lines(items(history.log)))


def lost_answer() -> History:
    """A refund whose answer was lost, a second claim that was refused, and evidence that it happened."""
    history = History().prepare("X").must("dispatch_requested").grant()
    history.wait(1_000).must("outcome_unknown")
    history.add("dispatch_requested", claim=claim("k2"))
    history.must("dispatch_refused", claim_id="k2", reason="unresolved", seen_version=5, actor="projector")
    return history.wait(5_000).must("outcome_confirmed", actor="reconciler")
