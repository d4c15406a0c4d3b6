"""A story as lines of text for a terminal of 80 columns, without control characters: ids and reasons come from elsewhere."""

import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from landed.core.state import Operation, Route
from landed_services.replay.counted import Difference, Tally
from landed_services.replay.differences import Change, facts
from landed_services.replay.telling import Line, Told

WIDTH: Final = 80
_INDENT: Final = " " * 4


def line_text(line: Line) -> Iterator[str]:
    """An event: when, where, what, and the state after it; below, by whom and on what evidence."""
    about = line.operation_id or line.route or "the topic"
    state = f" -> {line.state}" if line.state is not None and line.accepted else ""
    yield from _head(f"{when(line.at_ms)}  {line.partition}:{line.offset}  {line.event}  {about}{state}")
    if not line.accepted:
        yield from _below(f"NOT TAKEN: {line.reason}")
    yield from _below(": ".join(filter(None, (line.actor, line.evidence))))


def told_text(one: Told) -> Iterator[str]:
    """A decision, with what was known then above what is true now."""
    about = one.operation_id or one.route
    yield from _head(f"{when(one.at_ms)}  {one.partition}:{one.offset}  {one.decision}  {about}")
    policy = "" if one.policy_version is None else f", policy {one.policy_version}"
    yield from _below(f"by {one.by}{policy}: {one.because}")
    seen = "nothing of it" if one.seen is None else f"up to {one.seen}"
    unseen = ", ".join(map(str, one.not_seen))
    yield from _below(f"known then: {one.known_then} (had seen {seen}" + (f"; not {unseen})" if unseen else ")"))
    yield from _below(f"true now:   {one.true_now} ({one.shown_now})")


def state_text(route: Route, operation: Operation) -> Iterator[str]:
    """An operation at a point: each fact that is known."""
    yield from _head(f"{operation.operation_id}  ({operation.tool or 'no intent on record'}, {route.tenant_id}/{route.route})")
    for name, value in facts(route, operation).items():
        yield from _below(f"{name}: {value}")


def change_text(one: Change) -> Iterator[str]:
    """A value that differs between two points."""
    about = one.operation_id or one.route
    yield from _head(f"{about}  {one.field}: {one.before or '(nothing)'} -> {one.after or '(nothing)'}")


def difference_text(one: Difference) -> Iterator[str]:
    """A decision that would be another one, and what nobody can know of what would have followed."""
    yield from _head(f"{when(one.at_ms)}  {one.partition}:{one.offset}  {one.operation_id}  {one.what}")
    build = ", by this release under the recorded terms" if one.by == "build" else ""
    yield from _below(f"recorded: {one.recorded}, in {one.event}; would be: {one.instead}{build}")
    yield from _below(f"not known: {one.unknown}")


def tally_text(tally: Tally) -> Iterator[str]:
    """Counts by tool, then of the whole run."""
    for tool, kinds in sorted(tally.by_tool.items()):
        yield from _head(f"{tool or '(no intent on record)'}:")
        for what, number in sorted(kinds.items()):
            yield from _below(f"{number:>7,}  {what}")
    said = f"{tally.events:,} events, {tally.decisions:,} decisions: {tally.same:,} the same"
    yield from _wrapped(f"{said}; operations that differ: {tally.operations:,}; decisions unknown after: {tally.after:,}", "", "")
    for why, number in sorted(tally.unjudged.items()):
        yield from _below(f"{number:,} not judged: {why}")
    if tally.not_taken:
        yield from _below(f"{tally.not_taken:,} records cannot be read by this release")


def when(at_ms: int) -> str:
    """*at_ms* with its milliseconds, UTC: `2026-11-30T09:17:05.120Z`, which `--at` takes as it stands."""
    at = datetime.fromtimestamp(at_ms // 1_000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1_000:03d}Z"


def _head(text: str) -> Iterator[str]:
    yield from _wrapped(text, "", _INDENT)


def _below(text: str) -> Iterator[str]:
    if text:
        yield from _wrapped(text, _INDENT, _INDENT * 2)


def _wrapped(text: str, first: str, rest: str) -> Iterator[str]:
    plain = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    yield from textwrap.wrap(plain, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
