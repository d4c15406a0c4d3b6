"""Hypothesis strategies for logs of one route.

`logs()` is what actors and their troubles produce, through the same writer as the seeded tests; Hypothesis shrinks it towards a
short log of dull choices. `any_event()` knows nothing of states: any event of the catalogue with any value its type allows.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st
from tests.history import GROUP, T0, TENANT, claim, contract, entry
from tests.logs import CLAIMS, OPERATIONS, TEXTS, Writer

from landed.core.contract import contract_json
from landed.core.events import CATALOGUE, Claim, Entry, Event, OperationPrepared

T = TypeVar("T")


class Drawn:
    """Choices drawn by Hypothesis."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw

    def pick(self, among: Sequence[T]) -> T:
        return among[self._draw(st.integers(0, len(among) - 1))]


@st.composite
def logs(draw: Any, longest: int = 30) -> list[Entry]:
    """A log of X, Y and the inverse of X: plausible, with redelivery, forgery and late news."""
    writer = Writer(Drawn(draw))
    for _ in range(draw(st.integers(1, longest))):
        writer.write()
    return writer.log


@st.composite
def logs_of_two(draw: Any, longest: int = 12) -> tuple[list[Entry], list[Entry], list[int]]:
    """Logs of two operations that have nothing to do with each other, and how they are interleaved (0, 1, 0, …)."""
    parts = []
    for name in ("P", "Q"):
        writer = _Alone(Drawn(draw), name)
        for _ in range(draw(st.integers(1, longest))):
            writer.write()
        parts.append(writer.log)
    order = draw(st.permutations([0] * len(parts[0]) + [1] * len(parts[1])))
    return parts[0], parts[1], order


class _Alone(Writer):
    """One operation with an explicit contract and no prerequisites, in a group that nobody moves."""

    def __init__(self, picker: Drawn, name: str) -> None:
        super().__init__(picker)
        self._name = name

    def _append(self, one: Entry) -> Entry:
        named = msgspec.structs.replace(one.event, operation_id=self._name, event_id=f"{self._name}-{one.event.event_id}")
        if isinstance(named, OperationPrepared):
            named = msgspec.structs.replace(named, depends_on=[])
        return super()._append(entry(named, at_ms=one.at_ms, offset=one.position.offset))

    def _next(self) -> Any:
        return self.route.operation(self._name)


@st.composite
def claims(draw: Any) -> tuple[str, Claim]:
    """An operation and a claim on it, fresh or not, honest or not."""
    made = claim(
        draw(st.sampled_from((*CLAIMS, "fresh"))),
        request_hash=draw(st.sampled_from(("h1", "h1", "h1", "h2"))),
        lease_ms=draw(st.sampled_from((10_000, 10_000, 1, 0, -5, 10**9))),
        retry=draw(st.booleans()),
        replay=draw(st.booleans()),
        answer_by_ms=draw(st.sampled_from((T0 + 5_000, T0, T0 - 1, 2**62))),
    )
    return draw(st.sampled_from((*OPERATIONS, "unheard of"))), made


# ---- any event at all ---------------------------------------------------------------------------------------------------

_INT64 = st.one_of(st.integers(-3, 5), st.integers(-(2**63), 2**63 - 1))
_NAMES = st.sampled_from(
    (*OPERATIONS, *CLAIMS, "r1", "", "compensate:", "compensate:compensate:X", "compensate:X:2", "compensate:X:x")
)
_TEXT = st.one_of(_NAMES, st.text(max_size=12))
_CONTRACTS = st.one_of(
    st.sampled_from(TEXTS),
    st.builds(
        lambda **terms: contract_json(contract(**terms)),
        safe_window=st.floats(allow_nan=False, allow_infinity=False),
        longest_processing=st.floats(allow_nan=False, allow_infinity=False),
        max_attempts=_INT64,
    ),
    st.text(max_size=8),
)


def _of(kind: Any) -> st.SearchStrategy[Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return st.one_of(*(_of(one) for one in inner))
    if origin is list:
        return st.lists(_of(inner[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(_of(inner[0]), _of(inner[1]), max_size=2)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return st.builds(kind, **{name: _of(one) for name, one in get_type_hints(kind).items()})
    return {bool: st.booleans(), int: _INT64, str: _TEXT, NoneType: st.none()}[kind]


def _event(kind: type[Event]) -> st.SearchStrategy[Event]:
    fields = {name: _of(one) for name, one in get_type_hints(kind).items()}
    fields |= {"event_id": st.integers(0, 6).map(str), "tenant_id": st.just(TENANT), "route": st.just(GROUP)}
    fields["operation_id"] = st.one_of(st.sampled_from(OPERATIONS), st.sampled_from(OPERATIONS), _TEXT, st.none())
    if "contract" in fields:
        fields["contract"] = st.one_of(_CONTRACTS, st.none())
    return st.builds(kind, **fields)


any_event: st.SearchStrategy[Event] = st.one_of(*(_event(kind) for kind in CATALOGUE.values()))


@st.composite
def wild_logs(draw: Any, longest: int = 15) -> list[Entry]:
    """The beginning of a plausible log, then any events at any times."""
    log: list[Entry] = draw(logs(longest=10))
    for said in draw(st.lists(any_event, min_size=1, max_size=longest)):
        log.append(entry(said, at_ms=draw(_INT64), offset=len(log)))
    return log
