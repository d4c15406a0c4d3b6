"""What is due, page by page: what there is no room for comes first once there is, and holds up nothing else."""

from collections.abc import Collection, Sequence

from landed.core.state import Operation
from landed.core.vocabulary import State
from landed.ports.tables import DueOperation
from landed_services.reconciler.pages import PASS_S, DuePages


class _Clock:
    def __init__(self) -> None:
        self.at_s = 100.0

    def monotonic(self) -> float:
        return self.at_s

    def now_ms(self) -> int:
        return round(self.at_s * 1000)


class _Due:
    """Operations by the order of what is at stake; the first letter of each is its tool."""

    def __init__(self, names: str) -> None:
        self.names = names.split()
        self.read = 0

    def due(
        self, *, now_ms: int, limit: int, after: Sequence[object] | None = None, closed_tools: Collection[str] = ()
    ) -> Sequence[DueOperation]:
        first = 0 if after is None else self.names.index(str(after[0])) + 1
        page = [name for name in self.names[first:] if name[0] not in closed_tools][:limit]
        self.read += len(page)
        return [
            DueOperation(
                tenant_id="t",
                route=name,
                group_id=None,
                operation=Operation(operation_id=name, state=State.UNKNOWN, tool=name[0]),
                due_at_ms=0,
                place=(name,),
            )
            for name in page
        ]

    def next_due_ms(self) -> int | None:
        return None


def _tick(pages: DuePages, room: dict[str, int]) -> list[str]:
    """What is begun in one tick, when each tool has so much room."""
    begun, no_room = [], set[str]()
    left = dict(room)
    while (due := pages.next(0, list, no_room)) is not None:
        tool = due.operation.tool or ""
        if left.get(tool, 0) <= 0:
            no_room.add(tool)
            pages.put_aside(due)
            continue
        left[tool] -= 1
        begun.append(due.operation.operation_id)
    return begun


def test_what_there_is_no_room_for_comes_first_in_its_order_and_holds_up_no_other_tool() -> None:
    clock, tables = _Clock(), _Due("a1 a2 b1 a3 b2 a4")
    pages = DuePages(tables, clock, size=6, again_s=60.0)
    assert _tick(pages, {"a": 1, "b": 1}) == ["a1", "b1"]
    assert _tick(pages, {"a": 0, "b": 1}) == ["b2"]
    assert _tick(pages, {"a": 2}) == ["a2", "a3"]
    assert _tick(pages, {"a": 2}) == ["a4"]
    assert tables.read == 6, "each was read once"


def test_a_tool_without_room_costs_a_tick_one_look_however_many_wait_for_it() -> None:
    pages = DuePages(_Due(" ".join(f"a{number}" for number in range(100))), _Clock(), size=100, again_s=60.0)
    assert _tick(pages, {}) == []
    no_room: set[str] = set()
    looks = 0
    while (due := pages.next(0, list, no_room)) is not None:
        looks += 1
        no_room.add("a")
        pages.put_aside(due)
    assert looks == 1
    assert _tick(pages, {"a": 2}) == ["a0", "a1"]


def test_what_finds_no_place_aside_is_found_by_the_next_pass() -> None:
    clock = _Clock()
    pages = DuePages(_Due("a1 a2 b1 b2"), clock, size=2, again_s=0.0)
    assert _tick(pages, {}) == []
    clock.at_s += 0.3  # the page that waits aside leaves no place for another one
    assert _tick(pages, {}) == []
    clock.at_s += PASS_S
    assert _tick(pages, {"a": 2}) == ["a1", "a2"]
    clock.at_s += 0.3
    assert _tick(pages, {"b": 2}) == ["b1", "b2"]


def test_what_is_another_reconcilers_now_is_forgotten() -> None:
    tables = _Due("a1 b1")
    pages = DuePages(tables, _Clock(), size=2, again_s=60.0)
    assert _tick(pages, {"b": 1}) == ["b1"]
    tables.names = ["b2"]
    pages.forget()
    assert _tick(pages, {"a": 1}) == []
