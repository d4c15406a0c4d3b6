"""The recorded facts under other policies, contracts, or a newer build: every decision that would differ. Pure.

What callers, providers and people did is taken as it stands on the log. Each decision of the ledger and of its reconciler is made
again from what it had seen; what a compensator would do is asked under both terms. From the first difference of an operation on,
its history would have been another one: what follows is counted, and not guessed.

Source: docs/semantics.md §5, §7, §8.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from landed.core import events as ev
from landed.core.fold import Folded, fold, freeze
from landed.core.policy import AUTOMATIC
from landed.core.projection import PROJECTOR, awaits_decision, claim_in
from landed.core.reconciler_events import RECONCILER
from landed.wire.records import Record
from landed_services.reading import Freezing, Item, Refused, Skipped
from landed_services.replay import settling
from landed_services.replay.compared import By, Other, Said, Unjudged
from landed_services.replay.counted import Difference, Tally, unknown_after
from landed_services.replay.judging import Judges, rests_on
from landed_services.replay.moments import Moments, State
from landed_services.replay.rooms import Rooms
from landed_services.replay.rulings import Compensators, newly_followed
from landed_services.replay.scope import RouteKey, Scope
from landed_services.replay.settling import Look
from landed_services.replay.terms import Book, Terms, lease_under

UNREAD: Final = "the inverses that the tenant allowed then: no policy about them is on this log"
UNKNOWN_LOOK: Final = "when the look was sent is not on record, and what it proves rests on that"
NOTHING: Final = Said(word="left as it is")


class _Followed:
    """A route in scope."""

    def __init__(self, key: RouteKey) -> None:
        self.moments = Moments(*key)
        self.elsewhere: set[str] = set()
        """Operations whose history would have been another one."""
        self.looks: dict[str, Look] = {}
        self.last: dict[str, ev.Entry] = {}
        """Event at which each of them went another way."""


class WhatIf:
    """Runs a log.

    Args:
        terms: policies and contracts that are put in place of the recorded ones; None: none are, so what differs is the build.
        whole: whether all operations of the tenants are read, so that what they share can be counted.
    """

    def __init__(self, scope: Scope, terms: Terms | None = None, *, whole: bool = True) -> None:
        self._scope, self._terms, self._whole = scope, terms, whole
        self._book, self._rooms = Book(), Rooms()
        self._judges = Judges(self._book, self._rooms, terms, whole=whole)
        self._compensators = None if terms is None else Compensators(terms)
        self._followed: dict[RouteKey, _Followed] = {}
        self._partitions: set[int] = set()
        self._found: list[Difference] = []
        self._end: ev.Entry | None = None
        self.tally = Tally()

    def differences(self, items: Iterable[Item]) -> Iterator[Difference]:
        """The first difference of each operation, in the order in which the log is read."""
        for item in items:
            record, what = item.record, item.what
            if isinstance(what, Skipped) or not self._scope.reads(record.timestamp_ms or 0, record.partition, record.offset):
                continue
            self._begun(record)
            if isinstance(what, Refused):
                self.tally.not_taken += 1
                continue
            event = what.event if isinstance(what, ev.Entry) else what
            key = (event.tenant_id, event.route)
            if not self._scope.admits_route(*key):
                continue
            one = self._followed.get(key) or self._followed.setdefault(key, _Followed(key))
            if isinstance(what, Freezing):
                self._froze(one, what, ev.Position(partition=record.partition, offset=record.offset))
            else:
                self._take(one, what)
            yield from self._told()
        for one in self._followed.values():
            self._end_of(one)
        yield from self._told()

    @property
    def policies(self) -> list[str]:
        """Recorded policies that were read so far, each with its last version, in words."""
        return self._book.recorded

    def _told(self) -> Iterator[Difference]:
        found, self._found = self._found, []
        yield from found

    def _begun(self, record: Record) -> None:
        """Notes where the log begins: what stood before is gone, or was not asked for."""
        if record.partition not in self._partitions:
            self._partitions.add(record.partition)
            if record.offset > 0:
                self._rooms.begins(record.timestamp_ms or 0)

    # ---- one event ----------------------------------------------------------------------------------------------------

    def _froze(self, one: _Followed, what: Freezing, at: ev.Position) -> None:
        self.tally.not_taken += 1
        was, would = one.moments.now
        frozen = freeze(was, what.operation_id, at)
        one.moments.freeze(State(frozen, frozen if would is was else freeze(would, what.operation_id, at)))

    def _take(self, one: _Followed, entry: ev.Entry) -> None:
        before, name = one.moments.now, entry.event.operation_id
        self.tally.events += 1
        self._end = entry if self._end is None or entry.at_ms >= self._end.at_ms else self._end
        folded = fold(before.was, entry)
        look = None
        if folded.accepted and name is not None:
            if not settling.follows_a_look(entry.event, one.looks.get(name)):
                self._would_have_been_due(one, name, entry)
            self._judge(one, name, entry)
            look = settling.looked(one.moments, entry) if isinstance(entry.event, ev.ProbeRecorded) else None
        said = self._as_it_would_be_said(one, entry, look)
        if before.would is before.was and said is entry:
            after = State(folded.route, folded.route)
        else:
            other = fold(before.would, said)
            after = State(folded.route, other.route)
            if name is not None and other.accepted != folded.accepted:
                self._taken_otherwise(one, name, entry, folded, other)
        one.moments.add(entry, said, after)
        self._follow(one, entry, folded, after)
        if look is not None and name is not None:
            self._looked(one, name, entry, look)
        one.moments.trim()

    def _as_it_would_be_said(self, one: _Followed, entry: ev.Entry, look: Look | None) -> ev.Entry:
        terms, event = self._terms, entry.event
        if terms is None or not terms.contracts or event.operation_id is None:
            return entry
        was, would = (route.operation(event.operation_id) for route in one.moments.now)
        match event:
            case ev.OperationPrepared():
                return terms.rewritten(entry)
            case ev.DispatchGranted() | ev.LeaseRenewed():
                return replace(entry, event=replace(event, lease_ms=lease_under(event.lease_ms, was.contract, would.contract)))
            case ev.ProbeRecorded() if look is not None and event.next_check_at_ms is not None:
                shift_ms = settling.next_look_shift_ms(look) if was.contract_text != would.contract_text else 0
                return replace(entry, event=replace(event, next_check_at_ms=event.next_check_at_ms + shift_ms))
            case _:
                return entry

    def _judge(self, one: _Followed, name: str, entry: ev.Entry) -> None:
        found = self._judges.of(one.moments, one.looks.get(name), entry)
        if found is None:
            return
        self.tally.decisions += 1
        if self._is_unknown(one, name, entry.event):
            self.tally.after += 1
            one.elsewhere.add(name)
            return
        told = found.again()
        if isinstance(told, Unjudged):
            self.tally.leave(told.why)
        elif isinstance(told, Other):
            self._differs(one, name, entry, found.recorded, told)
        else:
            self.tally.same += 1

    def _is_unknown(self, one: _Followed, name: str, event: ev.Event) -> bool:
        """Whether what is decided about *name* rests on what would have been otherwise before."""
        if not one.elsewhere:
            return False
        if name in one.elsewhere:
            return True
        route = one.moments.now.was
        everything = isinstance(event, ev.OperationEscalated) and event.actor == PROJECTOR
        return not one.elsewhere.isdisjoint(route.operations if everything else rests_on(route, route.operation(name)))

    # ---- what was not recorded ----------------------------------------------------------------------------------------

    def _would_have_been_due(self, one: _Followed, name: str, entry: ev.Entry) -> None:
        """What another contract would have had done about *name* before *entry*, where it is not what the recorded one had."""
        was, would = one.moments.now
        old, new = was.operation(name), would.operation(name)
        if old.contract_text == new.contract_text or name in one.elsewhere or old.frozen_at:
            return
        then, now = (
            settling.due(operation, tenant_id=was.tenant_id, route=was.route, group_state=route.group_state)
            for operation, route in ((old, was), (new, would))
        )
        first = min((one.at_ms for one in (then, now) if one.at_ms is not None), default=None)
        # What comes in the millisecond in which it was due came first, unless it is what was due.
        by_ms = entry.at_ms if entry.event.actor == RECONCILER else entry.at_ms - 1
        if then == now or first is None or first > by_ms:
            return
        came = now.said if now.at_ms is not None and now.at_ms <= entry.at_ms else Said(word="waiting")
        had = then.said if then.at_ms is not None and then.at_ms <= entry.at_ms else Said(word="waiting")
        if came == had and now.at_ms is not None and then.at_ms is not None:
            came = Said(word=f"{came.word} {'earlier' if now.at_ms < then.at_ms else 'later'}", reason=came.reason)
        self._differs(one, name, entry, had, Other(instead=came, by=By.TERMS), at_ms=first)

    def _taken_otherwise(self, one: _Followed, name: str, entry: ev.Entry, old: Folded, new: Folded) -> None:
        if name in one.elsewhere or old.repeated or new.repeated:
            return
        words = {True: Said(word="taken"), False: Said(word="not taken", reason=(new if old.accepted else old).reason or "")}
        self._differs(one, name, entry, words[old.accepted], Other(instead=words[new.accepted], by=By.TERMS))

    def _follow(self, one: _Followed, entry: ev.Entry, folded: Folded, after: State) -> None:
        """What *entry* led to: claims to decide, looks to judge, policies, room, and what would follow and did not."""
        event, name = entry.event, entry.event.operation_id
        if isinstance(event, ev.PolicyChanged) and folded.accepted:
            self._book.take(after.was)
        self._follows_otherwise(one, entry, folded, after)
        if name is None:
            return
        claim = claim_in(event)
        if claim is not None and not folded.repeated and awaits_decision(after.was.operation(name), claim):
            one.moments.claims[claim.claim_id] = entry
        if not folded.accepted:
            return
        if isinstance(event, ev.DispatchGranted | ev.DispatchRefused | ev.DispatchReleased):
            one.moments.claims.pop(event.claim_id, None)
        if self._terms is None:
            return
        if one.last.get(name) is not entry:  # else it is a grant that would not have been
            self._rooms.follow(event, after.was, sure=name not in one.elsewhere, at_ms=entry.at_ms)
        operation = after.was.operation(name)
        if isinstance(event, ev.OperationPrepared) and operation.is_inverse and self._compensators is not None:
            self._compensators.learn(event.tool, operation.contract)

    def _looked(self, one: _Followed, name: str, entry: ev.Entry, look: Look) -> None:
        """What the look in *entry* proves, where that is not what it proves under another contract."""
        one.looks[name] = look
        old, new = (route.operation(name) for route in look.before)
        if name in one.elsewhere or old.contract_text == new.contract_text:
            return
        told = [(settling.proves(look, at), settling.proves(look, at, new=True)) for at in settling.sent_at_ms(look)]
        if any(was == would for was, would in told):
            if any(was != would for was, would in told):
                self.tally.leave(UNKNOWN_LOOK)
            return
        self._differs(one, name, entry, told[0][0], Other(instead=told[0][1], by=By.TERMS))

    def _follows_otherwise(self, one: _Followed, entry: ev.Entry, folded: Folded, after: State) -> None:
        """What would follow by itself, and what a compensator would do, where that is not what it was."""
        terms = self._terms
        if terms is None or self._compensators is None or not folded.accepted:
            return
        if after.would is not after.was:
            for name, said in newly_followed(after, folded.touched, now_ms=entry.at_ms):
                if name not in one.elsewhere:
                    self._differs(one, name, entry, NOTHING, Other(instead=said, by=By.TERMS))
        if one.elsewhere or not (terms.contracts or AUTOMATIC in terms.policies):
            return
        recorded = self._book.newest(after.was.tenant_id)
        for name, old, new, unsure in self._compensators.otherwise(after, recorded, now_ms=entry.at_ms):
            unread = "" if self._whole or AUTOMATIC in recorded.versions else UNREAD
            self._differs(
                one, name, entry, old, Other(instead=new, by=By.TERMS, unsure="; ".join(filter(None, (unread, unsure))))
            )

    def _end_of(self, one: _Followed) -> None:
        if self._terms is None or not self._terms.contracts or self._end is None:
            return
        for name in one.moments.now.was.operations:
            self._would_have_been_due(one, name, self._end)

    # ---- what is told -------------------------------------------------------------------------------------------------

    def _differs(
        self, one: _Followed, name: str, entry: ev.Entry, recorded: Said, found: Other, *, at_ms: int | None = None
    ) -> None:
        one.elsewhere.add(name)
        one.last[name] = entry
        route = one.moments.now.was
        operation = route.operation(name)
        self._rooms.unknown_from_here((route.tenant_id, route.route), name)
        if recorded.word == "refused" and found.instead.word in ("granted", "let through"):
            self._rooms.granted(one.moments.now.would, one.moments.now.would.operation(name), entry.at_ms, sure=True)
        told = Difference(
            at_ms=entry.at_ms if at_ms is None else at_ms,
            partition=entry.position.partition,
            offset=entry.position.offset,
            tenant_id=route.tenant_id,
            route=route.route,
            operation_id=name,
            tool=operation.tool or (entry.event.tool if isinstance(entry.event, ev.OperationPrepared) else None),
            event=ev.TYPE_OF[type(entry.event)],
            recorded=str(recorded),
            instead=str(found.instead),
            what=f"{found.instead.word} instead of {recorded.word}"
            if found.instead.word != recorded.word
            else f"{recorded.word} otherwise",
            by=found.by,
            unknown="; ".join(filter(None, (found.unsure, unknown_after(found.instead.word)))),
        )
        if self._shown(told):
            self.tally.count(told)
            self._found.append(told)

    def _shown(self, told: Difference) -> bool:
        scope = self._scope
        if scope.operation_id not in (None, told.operation_id) or scope.tool not in (None, told.tool):
            return False
        return scope.shows(told.at_ms, told.partition, told.offset)
