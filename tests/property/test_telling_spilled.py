"""A story whose routes and decisions lie in files is the story that is told from memory."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.logs import Seeded, log_of
from tests.unit.replay.support import items

from landed.core.events import Entry, Position
from landed_services.reading import Item
from landed_services.replay.differences import Change, differences
from landed_services.replay.scope import Cut, Scope
from landed_services.replay.telling import Line, Story, Told


def interleaved(seeds: list[int], order: list[int]) -> list[Item]:
    """A log of several routes, whose events come in turn as *order* says."""
    logs = [log_of(Seeded(seed), 12) for seed in seeds]
    mixed: list[Entry] = []
    for pick in order:
        which = pick % len(logs)
        if logs[which]:
            one = logs[which].pop(0)
            event = replace(one.event, route=f"trip-{which}", group_id=f"trip-{which}")
            mixed.append(replace(one, event=event, position=Position(partition=0, offset=len(mixed))))
    return items(mixed)


def everything(log: list[Item], held_max: int) -> tuple[list[Line], list[Told], list[object], list[Change]]:
    story = Story(Scope(), [Cut(partition=0, offset=len(log) // 2)], held_max=held_max)
    lines = list(story.lines(log))
    return lines, list(story.decisions()), list(story.routes(0, None)), list(differences(story, 0, None))


@settings(max_examples=40, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 999), min_size=1, max_size=4),
    order=st.lists(st.integers(0, 3), max_size=40),
    held_max=st.integers(0, 12),
)
def test_what_does_not_fit_into_memory_is_told_alike(seeds: list[int], order: list[int], held_max: int) -> None:
    log = interleaved(seeds, order)
    assert everything(log, held_max) == everything(log, 10**9)
