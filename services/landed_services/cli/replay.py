"""``landed replay``: what was known when, what was true, and who decided, from the topic or a bundle alone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import msgspec
from cyclopts import App, Parameter

from ._exit import CommandFailed, Exit, require
from ._output import Format, counted, note, print_json
from ._progress import progress
from ._replaying import (
    AllTenants,
    From,
    Group,
    Operation,
    Tenant,
    To,
    Tool,
    items_of,
    located,
    point_of,
    print_array,
    print_object,
    read,
    scope_of,
    told_in_parts,
    topic_of,
)
from .what_if import what_if

if TYPE_CHECKING:
    from landed_services.reading import Item
    from landed_services.replay.report import Many
    from landed_services.replay.telling import Line, Story, Told

replay = App(name="replay", help_format="plaintext")
replay.command(what_if, name="what-if")

Shown = Annotated[
    Literal["text", "json", "jsonl", "html"],
    Parameter(name=["--output", "-o"], help="jsonl: one JSON object a line; html: a page that stands alone."),
]
Locate = Annotated[bool, Parameter(negative="", help="Ask the database where it lies on the topic; read only there.")]
Processes = Annotated[int | None, Parameter(help="How many read; else one a processor where the topic is long.")]
At = Annotated[
    tuple[str, ...],
    Parameter(name="--at", negative="", help="States at this point, in place of the timeline; twice: what changed between."),
]


@replay.default
def tell(
    file: Annotated[Path | None, Parameter(help="A bundle; without one the topic is read.")] = None,
    /,
    *,
    tenant: Tenant = None,
    all_tenants: AllTenants = False,
    group: Group = None,
    operation: Operation = None,
    tool: Tool = None,
    from_: From = None,
    to: To = None,
    at: At = (),
    locate: Locate = False,
    processes: Processes = None,
    output: Shown = "text",
) -> int:
    """Tell what happened, and beside each decision what was known then and what is true now. Needs no database, changes nothing.

    For example:

        landed replay --tenant acme --group trip-7

        landed replay --tenant acme --operation refund-17 --at 2026-11-30T09:17:00

        landed replay incident.landed --at 3:812 --at 3:840 -o jsonl

        landed replay incident.landed -o html > incident.html
    """
    from landed_services.collecting import collect_rarely
    from landed_services.replay.telling import Story

    collect_rarely()
    require("--at", len(at) <= 2, "may be given once or twice")
    require("--output", not at or output != "html", "html shows the timeline, so it does not go with --at")
    cuts = [point_of("--at", text) for text in at]
    scope = scope_of(tenant, all_tenants or file is not None, group, operation, tool, from_, to)
    require("--processes", processes is None or processes >= 1, "must be at least 1")
    require("--locate", not locate or file is None, "is of a topic, not of a file")
    if locate:
        scope = located(scope)
    topic = None if file is not None else topic_of()[0]
    if topic is not None and not cuts:
        with progress() as say:
            scope = topic.near(scope, say)
        with told_in_parts(topic, scope, processes) as parts:
            if parts is not None:
                _print_story(parts.lines, parts.decisions, output)
                _note_counts(parts.events, parts.not_taken, output)
                return Exit.DONE
    with items_of(file, scope, opened=topic) as (items, narrowed, _):
        story = Story(narrowed, cuts, told=not cuts)
        if cuts:
            story.follow(items)
            _print_points(story, len(cuts), output)
        else:
            _print_story(_lines(story, items, output), _Decisions(story), output)
    _note_counts(story.events, story.not_taken, output)
    return Exit.DONE


@replay.command
def export(
    file: Annotated[Path, Parameter(help="The bundle to write; never overwritten.")],
    /,
    *,
    tenant: Tenant = None,
    all_tenants: AllTenants = False,
    group: Group = None,
    operation: Operation = None,
    to: To = None,
    output: Format = "text",
) -> int:
    """Write part of the topic to one file that tells the same story anywhere: whole groups, from their first event on.

    With --group or --operation, the policies of its tools go into it too, all versions, for `landed replay what-if FILE`.

    For example:

        landed replay export incident.landed --tenant acme --group trip-7
    """
    from landed_services.replay.bundle import Head, write_bundle
    from landed_services.replay.policies import with_policies

    require("FILE", not file.exists(), f"{file} is there already, and nothing is overwritten")
    scope = scope_of(tenant, all_tenants, group, operation, None, None, to)
    asked = {"tenant": tenant, "group": group, "operation": operation, "to": to}
    topic, ring, name = topic_of()
    with progress() as say:
        narrowed = topic.find(scope, say)
        if group is not None or operation is not None:
            # Decisions are judged under policies, which stand elsewhere on the log.
            found = read(topic.records(narrowed, say, merged=False), narrowed, ring, topic.partitions)
            narrowed = with_policies(narrowed, found)
        head = Head(
            landed_bundle=1,
            release=version("landed"),
            topic=name,
            partitions=topic.partitions,
            scope={key: value for key, value in asked.items() if value is not None},
            made_at_ms=time.time_ns() // 1_000_000,
        )
        records = topic.records(narrowed, say)
        try:
            written = write_bundle(file, head, read(records, narrowed, ring, topic.partitions), ring)
        except OSError as error:
            raise CommandFailed(f"{file}: cannot be written: {error.strerror or error}", Exit.SETUP) from error
    if output == "text":
        print(f"{counted(written.records, 'record')} in {file}")
        print(f"signed under key {written.signed_by}" if written.signed_by else "not signed: LANDED_WRITER_KEY is not set")
    else:
        print_json(msgspec.to_builtins(written))
    return Exit.DONE


# ---- how it is shown --------------------------------------------------------------------------------------------------


class _Decisions:
    """Those of a story, once its last line was read."""

    def __init__(self, story: Story) -> None:
        self._story = story

    def __len__(self) -> int:
        return self._story.decided

    def __iter__(self) -> Iterator[Told]:
        return self._story.decisions()


def _lines(story: Story, items: Iterable[Item], output: str) -> Iterable[Line]:
    """Lines of *story* as they come; kept where they are gone through twice."""
    if output != "html":
        return story.lines(items)
    from landed_services.replay.telling import Line
    from landed_services.spilling import Spool

    kept = Spool[Line](Line)
    for line in story.lines(items):
        kept.add(line)
    return kept


def _note_counts(events: int, not_taken: int, output: str) -> None:
    if output == "text":
        taken = f", {counted(not_taken, 'record')} not taken" if not_taken else ""
        note(f"{counted(events, 'event')}{taken}")


def _print_story(lines: Iterable[Line], decisions: Many[Told], output: str) -> None:
    if output == "json":
        print_array("events", lines, before="{")
        print_array("decisions", decisions, before=",")
        print("}")
        return
    if output == "jsonl":
        for line in lines:
            print_object("event", line)
        for one in decisions:
            print_object("decision", one)
        return
    if output == "html":
        from landed_services.replay.report import report

        for piece in report(cast("Many[Line]", lines), decisions, title="What was known when, and who decided"):
            print(piece, end="")
        return
    from landed_services.replay.showing import line_text, told_text

    for line in lines:
        print("\n".join(line_text(line)))
    for number, one in enumerate(decisions):
        if number == 0:
            print("\nDecisions: what was known then, what is true now")
        print("\n".join(told_text(one)))


def _print_points(story: Story, cuts: int, output: str) -> None:
    """States at one point, or what changed from one to another."""
    from landed_services.replay.differences import differences, facts

    if cuts == 2:
        changes = list(differences(story, 0, 1))
        if output == "text":
            from landed_services.replay.showing import change_text

            print("\n".join(text for one in changes for text in change_text(one)) or "Nothing differs.")
        elif output == "json":
            print_json({"changes": msgspec.to_builtins(changes)})
        else:
            for one in changes:
                print_object("change", one)
        return
    found = list(story.operations(0))
    if output == "text":
        from landed_services.replay.showing import state_text

        print("\n".join(text for known in found for text in state_text(*known)) or "Nothing was on record.")
        return
    states = [
        {
            "tenant_id": route.tenant_id,
            "route": route.route,
            "operation_id": one.operation_id,
            "tool": one.tool,
            **facts(route, one),
        }
        for route, one in found
    ]
    if output == "json":
        print_json({"operations": states})
    else:
        for state in states:
            print_object("operation", state)
