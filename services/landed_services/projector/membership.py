"""Which projectors are there, and which partitions each of them is to own.

A thread says every quarter of a second that this projector is there, under a database session of its own, and looks who else is.
A projector that is killed loses its session at once; one that stands still falls silent. Everybody computes the same shares from
the same rows. None of it carries a guarantee: who may commit is told by the owner epoch of a position alone, so two projectors
that see the rows differently for a moment only cost each other a new session.

Source: docs/decisions/0005-partitions-are-shared-through-the-database.md.
"""

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import msgspec

from landed.adapters.postgres import DatabaseError, DatabaseUnreachable, PostgresSettings, connect, translated
from landed.adapters.postgres.statements import statement

BEAT_S: Final = 0.25
DEAD_AFTER_S: Final = 1.2
"""Silence after which the others take over: several beats, and short enough to be done within two seconds."""
STUCK_AFTER_S: Final = 15.0
"""A projector whose loop made no turn for so long says no more that it is there. Longer than any wait of a turn."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Who owns a partition."""

    owner: str
    owner_epoch: int
    caught_up: bool


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What one look showed."""

    live: tuple[str, ...]
    """Projectors that are there, this one among them."""
    places: Mapping[int, Place]

    def is_free(self, partition: int) -> bool:
        """Whether nobody who is there owns *partition*."""
        place = self.places.get(partition)
        return place is None or place.owner not in self.live


def shares(places: Mapping[int, Place], live: Sequence[str], partitions: int) -> dict[str, set[int]]:
    """Partitions of each projector of *live*: as many for each, give or take one, and as few as possible change hands. Pure."""
    held: dict[str, list[int]] = {name: [] for name in sorted(live)}
    free: list[int] = []
    for partition in range(partitions):
        place = places.get(partition)
        (held[place.owner] if place is not None and place.owner in held else free).append(partition)
    base, over = divmod(partitions, len(held))
    # Who holds most gets one more, so that it need not give that one away.
    order = sorted(held, key=lambda name: (-len(held[name]), name))
    quota = {name: base + (rank < over) for rank, name in enumerate(order)}
    for name in order:
        free += held[name][quota[name] :]
        del held[name][quota[name] :]
    free.sort()
    for name in order:
        lacks = quota[name] - len(held[name])
        held[name] += free[:lacks]
        del free[:lacks]
    return {name: set(mine) for name, mine in held.items()}


class Membership:
    """This projector among the others, from `__enter__` to `__exit__`.

    Args:
        name: shown in `positions`; something unique is added to it, since one that comes again is another one.
    """

    def __init__(self, database: PostgresSettings, name: str) -> None:
        self._database = database
        self.name = f"{name}-{uuid.uuid4().hex[:12]}"
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._failed: DatabaseError | None = None
        self._turned = self._said = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="landed-membership", daemon=True)

    def __enter__(self) -> Self:
        """Raises: DatabaseUnreachable, SchemaOutdated."""
        self._connection: Any = connect(self._database)
        try:
            self._seen = self._beat()
        except BaseException:
            self._connection.close()
            raise
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._wake.set()
        self._thread.join()
        try:
            with translated(self._database):
                self._connection.execute(statement("leave"), {"name": self.name})
        except DatabaseError:
            pass  # its session is gone, and that says the same
        finally:
            self._connection.close()

    @property
    def seen(self) -> Seen:
        """The last look, at most a beat old.

        Raises:
            DatabaseUnreachable: there is no session any more, so the others see this projector no more.
        """
        if self._failed is not None:
            raise DatabaseUnreachable(str(self._failed)) from self._failed
        return self._seen

    def turned(self) -> None:
        """The loop made a turn."""
        self._turned = time.monotonic()

    def look(self) -> None:
        """Has the next look come at once."""
        self._wake.set()

    @property
    def is_known(self) -> bool:
        """Whether the others cannot have taken this projector for dead: what it said last is not older than that."""
        return time.monotonic() - self._said < DEAD_AFTER_S

    def _run(self) -> None:
        while True:
            self._wake.wait(BEAT_S)
            self._wake.clear()
            if self._stopping.is_set():
                return
            if time.monotonic() - self._turned > STUCK_AFTER_S:
                continue
            try:
                self._seen = self._beat()
            except DatabaseError as error:
                self._failed = error
                return

    def _beat(self) -> Seen:
        began = time.monotonic()
        with translated(self._database):
            execute = self._connection.execute
            execute(statement("beat"), {"name": self.name})
            live = execute(statement("live_projectors"), {"dead_after_ms": int(DEAD_AFTER_S * 1000)}).fetchall()
            owners = execute(statement("owners")).fetchall()
        self._said = began
        places = {row[0]: Place(owner=row[1], owner_epoch=row[2], caught_up=row[3]) for row in owners}
        return Seen(live=tuple(sorted({self.name, *(row[0] for row in live)})), places=places)
