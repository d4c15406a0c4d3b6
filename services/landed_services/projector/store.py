"""The transaction of one turn: positions compared and set first, then what the batch changed, then the outbox."""

import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, LiteralString

import msgspec
from psycopg import sql
from psycopg.types.numeric import Int8Dumper

from landed.adapters.postgres.connections import Connection, connect, translated
from landed.adapters.postgres.escaping import escaped, unescaped
from landed.adapters.postgres.migrating import check_schema
from landed.adapters.postgres.policies import load_policies
from landed.adapters.postgres.routes import RouteKey, StoredRoute, collect_routes, load_routes, start_loading
from landed.adapters.postgres.rows import EVENT_COLUMNS, OPERATION_COLUMNS, Row
from landed.adapters.postgres.settings import PostgresSettings
from landed.adapters.postgres.statements import statement
from landed.adapters.postgres.together import write_together
from landed.core import events as ev
from landed.core.asked import OnRecord
from landed.core.policy import NO_POLICIES, Policies
from landed.testing.failure_points import reach
from landed.wire.codec import decode
from landed.wire.errors import DecodeError
from landed_services.projector.batch import Changes, ClaimKey, OnItsWay, View
from landed_services.projector.counting import GRANT_COLUMNS, RESOURCE_COLUMNS, Counting
from landed_services.projector.deciding import Decided, KnownUnder
from landed_services.projector.errors import TakenOver
from landed_services.projector.rooms import (
    FORGET_AFTER_MS,
    Claimed,
    Rooms,
    Told,
    breaker_event,
    breakers_to_tell,
    forget_grants,
    forget_resources,
    longest_window_ms,
    look_up,
)

COPY_FROM: Final = 64
"""Rows from which copying is faster than a statement for each."""

FORGET_EVERY_MS: Final = 1_000
"""How often grants that no window reaches back to are forgotten: a few at a time, so that no claim waits for it."""
FORGET_RESOURCES_EVERY_MS: Final = 3_600_000
"""How often resources that were given back are."""
KINDS_MAX: Final = 10_000
"""Tenants and effect types of which it is remembered when that was."""

LOCK_SPACE: Final = 0x6C616E64
"""Of the advisory locks on operation ids, so that they meet no other locks of the database."""
LOCK_BUCKETS: Final = 1024
"""Locks on operation ids: few enough for the lock table of a server with usual settings, whatever the size of a batch."""

_COPY_NEW_OPERATIONS: Final = sql.SQL("COPY operations ({}) FROM STDIN (FORMAT BINARY)").format(
    sql.SQL(", ").join(map(sql.Identifier, OPERATION_COLUMNS))
)
_OPERATION_TYPES: Final = tuple(OPERATION_COLUMNS.values())
_PARTITION: Final = tuple(OPERATION_COLUMNS).index("partition")
_FIRST_OFFSET: Final = tuple(OPERATION_COLUMNS).index("first_offset")
_DECISION_COLUMNS: Final = {
    "partition": "int4",
    "number": "int8",
    "tenant_id": "text",
    "route": "text",
    "operation_id": "text",
    "claim_id": "text",
    "event_id": "text",
    "type": "text",
    "reply_to": "text",
    "claim_offset": "int8",
    "decided_at_ms": "int8",
    "value": "bytea",
}


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition stands, and under which owner."""

    partition: int
    owner_epoch: int
    next_offset: int
    last_offset: int | None = None
    last_digest: bytes | None = None
    leader_epoch: int = -1
    topic_id: str = ""
    pruned_before: int = 0


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn looks up beside its routes."""

    routes: list[RouteKey]
    operation_ids: list[tuple[str, str]] = []
    """Tenant and id of each claimed operation that was never dispatched as far as the memory knows."""
    claims: list[ClaimKey] = []
    tenants: frozenset[str] = frozenset()
    """Tenants with a claim that may be decided."""
    references: tuple[str, ...] = ()
    """What claimed inverses may act on."""


class LookedUp(msgspec.Struct, frozen=True, kw_only=True):
    now_ms: int
    routes: dict[RouteKey, StoredRoute]
    known_under: dict[tuple[str, str], list[KnownUnder]]
    decided_before: frozenset[ClaimKey]
    policies: Mapping[str, Policies]
    policies_whole: bool
    on_record: Mapping[str, list[OnRecord]] = {}
    """By reference, the operations of any tenant that have it on record."""


class Store:
    """One session with the database, of one owner; not shared between threads."""

    def __init__(self, settings: PostgresSettings) -> None:
        """Connects.

        Raises:
            DatabaseUnreachable: the server did not answer.
            SchemaOutdated: the tables are missing or of another release.
        """
        self._settings = settings
        self._connection: Connection = connect(settings)
        self._policies: dict[str, Policies] = {}
        """Of tenants whose claims were decided, as they stood at `_policies_at`."""
        self._policies_at: int | None = None
        self._forgot_ms: dict[tuple[str, str | None], int] = {}
        """When it was forgotten last what is old, by tenant and effect type; without one of resources."""
        self._stood: dict[int, int] = {}
        """Next offset of each partition before the transaction at hand: the tables hold nothing from there on."""
        try:
            with self._translated():
                check_schema(settings, self._connection)
                # Every statement of this session goes by keys. A plan made while a table was small must not scan it later.
                self._connection.execute("SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off")
                self._connection.execute("SET plan_cache_mode = force_generic_plan; SET jit = off")
                self._connection.execute(statement("create_incoming"))
                # One type whatever the number, so that a statement is prepared once and not for each mix of sizes.
                self._connection.adapters.register_dumper(int, Int8Dumper)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def _translated(self) -> Any:
        return translated(self._settings)

    # ---- taking over --------------------------------------------------------------------------------------------------

    def partitions(self, topic_partitions: int, *, topic_id: str) -> int:
        """Partitions that the tables were folded from; those of the topic when nothing was folded yet."""
        with self._translated():
            self._connection.execute(statement("create_positions"), {"topic_id": topic_id, "partitions": topic_partitions})
            return len(self._connection.execute(statement("owners")).fetchall())

    def take_over(
        self, partitions: Sequence[int], *, topic_id: str, owner: str, others: Sequence[str] = ()
    ) -> dict[int, Position]:
        """Makes this session the owner of *partitions*; whoever owned them can commit nothing more.

        The sessions of owners that are gone are ended: one may stand still inside a transaction.

        Args:
            others: projectors that are there; what one of them owns by now is left to it.
        """
        names = {"partitions": list(partitions), "topic_id": topic_id, "owner": owner, "others": list(others)}
        with self._translated():
            self._connection.execute(statement("cut_off"), {"partitions": list(partitions), "there": [owner, *others]})
            rows = self._connection.execute(statement("take_over"), names, binary=True).fetchall()
        return {
            row[0]: Position(
                partition=row[0],
                topic_id=row[1],
                next_offset=row[2],
                last_offset=row[3],
                last_digest=row[4],
                leader_epoch=row[5],
                owner_epoch=row[6],
                pruned_before=row[7],
            )
            for row in rows
        }

    def release(self, positions: Sequence[Position]) -> None:
        """Gives partitions up, for others to take over."""
        self._with_epochs("release", positions)

    def mark_caught_up(self, positions: Sequence[Position]) -> None:
        """Has the other projectors see that these partitions have caught up."""
        self._with_epochs("mark_caught_up", positions)

    def mark_policies_whole(self) -> None:
        """Every partition was seen caught up: the tables hold every policy that stood on the log."""
        with self._translated():
            self._connection.execute(statement("mark_policies_whole"))

    def _with_epochs(self, name: str, positions: Sequence[Position]) -> None:
        owned = {"partitions": [one.partition for one in positions], "owner_epochs": [one.owner_epoch for one in positions]}
        with self._translated():
            self._connection.execute(statement(name), owned, binary=True)

    def on_their_way(self, partitions: Sequence[int]) -> list[tuple[ev.Event, OnItsWay]]:
        """Decisions that the outbox holds, in the order in which they were made."""
        with self._translated():
            rows = self._connection.execute(statement("on_their_way"), {"partitions": list(partitions)}, binary=True).fetchall()
        return [_on_its_way(row) for row in rows]

    def last_numbers(self, partitions: Sequence[int]) -> dict[int, int]:
        with self._translated():
            return dict(
                self._connection.execute(statement("last_numbers"), {"partitions": list(partitions)}, binary=True).fetchall()
            )

    def undecided(self, partitions: Sequence[int]) -> list[ev.Entry]:
        """Events that wait for a decision since an earlier owner folded them."""
        with self._translated():
            rows = self._connection.execute(statement("load_undecided"), {"partitions": list(partitions)}, binary=True).fetchall()
        return [
            ev.Entry(
                event=decode(value),
                position=ev.Position(partition=partition, offset=offset),
                at_ms=at_ms,
                digest=digest.hex(),
            )
            for partition, offset, at_ms, digest, value in rows
        ]

    def unsettled_routes(self, partitions: Sequence[int]) -> list[RouteKey]:
        """Routes from whose state a decision may follow by itself."""
        with self._translated():
            rows = self._connection.execute(statement("unsettled_routes"), {"partitions": list(partitions)}).fetchall()
        return [(unescaped(tenant_id), unescaped(route)) for tenant_id, route in rows]

    def decisions_on(self, key: RouteKey, operation_id: str) -> list[ev.Entry]:
        """Decisions about claims of an operation that the fold accepted, in log order."""
        with self._translated():
            rows = self._connection.execute(
                statement("decisions_on_claims"),
                {"tenant_id": escaped(key[0]), "route": escaped(key[1]), "operation_id": escaped(operation_id)},
                binary=True,
            ).fetchall()
        found = []
        for value, at_ms in rows:
            try:
                event = decode(value)
            except DecodeError:
                continue
            found.append(ev.Entry(event=event, position=ev.Position(partition=-1, offset=-1), at_ms=at_ms, digest=""))
        return found

    # ---- one turn -----------------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, *, large: bool) -> Iterator[None]:
        """One transaction; a small one in a pipeline, so that it costs two round trips (COPY does not go through a pipeline)."""
        with self._translated():
            if large:
                with self._connection.transaction():
                    yield
            else:
                with self._connection.pipeline(), self._connection.transaction():
                    yield

    def advance(self, moves: Sequence[tuple[Position, Position]], wanted: Wanted) -> LookedUp:
        """Compares and sets positions and looks up what the batch needs, as the first statements of the transaction.

        Raises:
            TakenOver: a position is not where this owner left it.
        """
        execute = self._connection.execute
        self._stood |= {was.partition: was.next_offset for was, _ in moves}
        advanced = execute(statement("advance"), _moved(moves), binary=True)
        loading = start_loading(self._connection, wanted.routes) if wanted.routes else None
        ids = wanted.operation_ids
        if ids:
            execute(statement("lock_ids"), {"space": LOCK_SPACE, "buckets": _buckets(ids)}, binary=True)
        known = (
            execute(
                statement("known_under"),
                {"tenant_ids": [escaped(one[0]) for one in ids], "operation_ids": [escaped(one[1]) for one in ids]},
                binary=True,
            )
            if ids
            else None
        )
        decided = (
            execute(
                statement("decided_claims"),
                {
                    "tenant_ids": [escaped(claim[0]) for claim in wanted.claims],
                    "routes": [escaped(claim[1]) for claim in wanted.claims],
                    "operation_ids": [escaped(claim[2]) for claim in wanted.claims],
                    "claim_ids": [escaped(claim[3]) for claim in wanted.claims],
                },
                binary=True,
            )
            if wanted.claims
            else None
        )
        named = (
            execute(statement("operations_by_reference"), {"references": [*map(escaped, wanted.references)]}, binary=True)
            if wanted.references
            else None
        )
        times = advanced.fetchall()
        if len(times) != len(moves):
            names = ", ".join(str(was.partition) for was, _ in moves)
            raise TakenOver(f"partitions {names}: another projector owns one of them now, or moved its position; this one stops")
        known_under: dict[tuple[str, str], list[KnownUnder]] = {}
        for tenant_id, operation_id, *rest in known.fetchall() if known is not None else ():
            found = KnownUnder(unescaped(rest[0]), *rest[1:])
            known_under.setdefault((unescaped(tenant_id), unescaped(operation_id)), []).append(found)
        on_record: dict[str, list[OnRecord]] = {}
        for reference, tenant_id, operation_id, tool in named.fetchall() if named is not None else ():
            owner = OnRecord(unescaped(tenant_id), unescaped(operation_id), unescaped(tool))
            on_record.setdefault(unescaped(reference), []).append(owner)
        revision = times[0][1]
        return LookedUp(
            now_ms=max(row[0] for row in times),
            policies=self._policies_of(wanted.tenants, revision),
            policies_whole=revision is not None,
            on_record=on_record,
            routes=collect_routes(wanted.routes, *loading) if loading is not None else {},
            known_under=known_under,
            decided_before=frozenset(
                (unescaped(tenant_id), unescaped(route), unescaped(operation_id), unescaped(claim_id))
                for tenant_id, route, operation_id, claim_id in (decided.fetchall() if decided is not None else ())
            ),
        )

    def _policies_of(self, tenants: frozenset[str], revision: int | None) -> Mapping[str, Policies]:
        """The policies in the tables now. They are read again only after one of them changed."""
        if revision != self._policies_at or revision is None:
            self._policies, self._policies_at = {}, revision
        missing = [tenant_id for tenant_id in tenants if tenant_id not in self._policies]
        if missing:
            self._policies |= load_policies(self._connection, missing)
        return self._policies

    def rooms(self, claimed: Sequence[Claimed], looked_up: LookedUp) -> Rooms:
        """Locks what ceilings and resources say about *claimed* until the transaction ends, and reads it."""
        rooms = look_up(self._connection, claimed, looked_up.policies, now_ms=looked_up.now_ms)
        now_ms = looked_up.now_ms
        for tenant_id, effect_type in sorted({(one.tenant_id, one.effect_type) for one in claimed}):
            if self._is_time((tenant_id, effect_type), now_ms, FORGET_EVERY_MS):
                window_ms = longest_window_ms(looked_up.policies.get(tenant_id, NO_POLICIES))
                forget_grants(self._connection, tenant_id, effect_type, before_ms=now_ms - window_ms)
        for tenant_id in sorted({one.tenant_id for one in claimed if one.resources}):
            if self._is_time((tenant_id, None), now_ms, FORGET_RESOURCES_EVERY_MS):
                forget_resources(self._connection, tenant_id, before_ms=now_ms - FORGET_AFTER_MS)
        return rooms

    def _is_time(self, kind: tuple[str, str | None], now_ms: int, every_ms: int) -> bool:
        """Whether to forget what is old of *kind*, of which there is more now."""
        if len(self._forgot_ms) > KINDS_MAX:
            self._forgot_ms.clear()
        if now_ms < self._forgot_ms.setdefault(kind, now_ms) + every_ms:
            return False
        self._forgot_ms[kind] = now_ms
        return True

    def breakers_to_tell(self, partitions: Sequence[int]) -> list[Told]:
        """Breakers of which the log is to be told, where their policies stand on *partitions*."""
        with self._translated():
            return breakers_to_tell(self._connection, list(partitions))

    def breaker_events(self, told: Sequence[Told], looked_up: LookedUp) -> list[tuple[int, ev.BreakerChanged]]:
        """What the log is told, each with its partition."""
        found = []
        for one in told:
            policies = looked_up.policies.get(one.tenant_id, NO_POLICIES)
            event = breaker_event(one, policies, self._connection, now_ms=looked_up.now_ms)
            if event is not None:
                found.append((one.partition, event))
        return found

    def load(self, keys: Sequence[RouteKey]) -> dict[RouteKey, StoredRoute]:
        """The routes of *keys* as the tables hold them; one that they do not know comes back empty."""
        return load_routes(self._connection, keys)

    def write(self, view: View, decided: Sequence[Decided], *, large: bool) -> None:
        """Writes what the batch changed and puts its decisions into the outbox."""
        changes = view.changes
        self.write_events(changes.events, large=large)
        reach("projector.mid_batch")
        self._write_operations(view.operation_rows(), large)
        self._many("upsert_route", view.route_rows())
        if view.policies_changed:
            self._connection.execute(statement("raise_policy_revision"))
        self._many("insert_refused", changes.refused)
        self._many("insert_news", changes.news)
        self._write_counting(changes.counting)
        self._write_undecided(changes, large)
        self._write_decisions([_decision_row(decision) for decision in decided], large)
        if changes.returned:
            partitions, numbers, offsets = zip(*changes.returned, strict=True)
            self._connection.execute(
                statement("decisions_returned"),
                {"partitions": list(partitions), "numbers": list(numbers), "offsets": list(offsets)},
                binary=True,
            )

    def _write_counting(self, counting: Counting) -> None:
        write_together(self._connection, "insert_grant", GRANT_COLUMNS, [*counting.grants.values()])
        write_together(self._connection, "insert_resource", RESOURCE_COLUMNS, [*counting.resources.values()])
        for names in counting.released:
            self._connection.execute(statement("void_grant"), names)
        self._many("breaker_opened", list(counting.opened.values()))
        self._many("breaker_told", counting.told)

    def _many(self, name: str, rows: Sequence[Row]) -> None:
        if rows:
            with self._connection.cursor() as cursor:
                cursor.executemany(statement(name), rows)

    def write_events(self, rows: Sequence[Row], *, large: bool) -> None:
        """Keeps the events of a batch, or of a part of it."""
        if large and len(rows) >= COPY_FROM:
            self._copy(statement("copy_events"), [*EVENT_COLUMNS.values()], rows)
        else:
            write_together(self._connection, "insert_event", EVENT_COLUMNS, rows)

    def _write_decisions(self, rows: Sequence[Row], large: bool) -> None:
        if large and len(rows) >= COPY_FROM:
            self._copy(statement("copy_decisions"), [*_DECISION_COLUMNS.values()], rows)
        else:
            write_together(self._connection, "insert_decision", _DECISION_COLUMNS, rows)

    def _write_undecided(self, changes: Changes, large: bool) -> None:
        if changes.decided:
            partitions, offsets = zip(*changes.decided, strict=True)
            self._connection.execute(
                statement("delete_undecided"), {"partitions": list(partitions), "offsets": list(offsets)}, binary=True
            )
        if large and len(changes.undecided) >= COPY_FROM:
            self._copy(statement("copy_undecided"), ("int4", "int8"), changes.undecided)
        else:
            self._many("insert_undecided", changes.undecided)

    def _write_operations(self, rows: Sequence[Row], large: bool) -> None:
        if not large or len(rows) < COPY_FROM:
            write_together(self._connection, "upsert_operation", OPERATION_COLUMNS, rows)
            return
        # What came up in this transaction has no row that it could meet.
        new = [row for row in rows if row[_FIRST_OFFSET] >= self._stood[row[_PARTITION]]]
        if new:
            self._copy(_COPY_NEW_OPERATIONS, _OPERATION_TYPES, new)
        if len(new) < len(rows):
            known = [row for row in rows if row[_FIRST_OFFSET] < self._stood[row[_PARTITION]]]
            self._copy(statement("copy_operations"), _OPERATION_TYPES, known)
            self._connection.execute(statement("upsert_operations"))

    def _copy(self, into: LiteralString | sql.Composed, types: Sequence[str], rows: Sequence[Row]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(into) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)


def _buckets(ids: Sequence[tuple[str, str]]) -> list[int]:
    """Locks of *ids* in one order for all, so that two projectors never wait for each other."""
    return sorted(
        {
            zlib.crc32(f"{tenant_id}/{operation_id}".encode("utf-8", "surrogatepass")) % LOCK_BUCKETS
            for tenant_id, operation_id in ids
        }
    )


def _moved(moves: Sequence[tuple[Position, Position]]) -> Mapping[str, Any]:
    return {
        "partitions": [was.partition for was, _ in moves],
        "owner_epochs": [was.owner_epoch for was, _ in moves],
        "was_next": [was.next_offset for was, _ in moves],
        "was_digest": [was.last_digest for was, _ in moves],
        "was_leader": [was.leader_epoch for was, _ in moves],
        "next": [now.next_offset for _, now in moves],
        "last": [now.last_offset for _, now in moves],
        "digest": [now.last_digest for _, now in moves],
        "leader": [now.leader_epoch for _, now in moves],
    }


def _decision_row(decision: Decided) -> Row:
    event = decision.event
    return (
        decision.partition,
        decision.number,
        escaped(event.tenant_id),
        escaped(event.route),
        escaped(event.operation_id),
        escaped(decision.claim_id),
        event.event_id,
        ev.TYPE_OF[type(event)],
        escaped(decision.reply_to),
        decision.claim_offset,
        decision.decided_at_ms,
        decision.value,
    )


def _on_its_way(row: Row) -> tuple[ev.Event, OnItsWay]:
    partition, number, claim_id, reply_to, decided_at_ms, value = row
    event = decode(value)
    entry = ev.Entry(
        event=event,
        position=ev.Position(partition=partition, offset=-1),
        at_ms=decided_at_ms,
        digest=hashlib.sha256(value).hexdigest(),
    )
    return event, OnItsWay(
        partition=partition, number=number, entry=entry, claim_id=unescaped(claim_id), reply_to=unescaped(reply_to)
    )
