"""``landed replay``: what was known when, what was true, and who decided, from the topic or a bundle alone."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from cyclopts import App, Parameter

from landed.core.identity import check_id

from ._exit import CommandFailed, Exit, require
from ._output import counted, note, print_json
from ._people import Listed

if TYPE_CHECKING:
    from landed.wire.mac import KeyRing
    from landed.wire.records import Record
    from landed_services.reading import Item
    from landed_services.replay.scope import Cut, Scope
    from landed_services.replay.telling import Story
    from landed_services.replay.topic import Progress, Topic

replay = App(name="replay", help_format="plaintext")

Shown = Annotated[
    Literal["text", "json", "jsonl", "html"],
    Parameter(name=["--output", "-o"], help="jsonl: one JSON object a line; html: a page that stands alone."),
]
Tenant = Annotated[str | None, Parameter(help="Whose operations; else LANDED_TENANT.")]
AllTenants = Annotated[bool, Parameter(name="--all-tenants", negative="", help="Those of all tenants.")]
Group = Annotated[str | None, Parameter(help="Only this group; for an operation without one, its own id.")]
Operation = Annotated[str | None, Parameter(help="Only this operation; with --group it is found at once.")]
Tool = Annotated[str | None, Parameter(help="Only operations of this tool.")]
From = Annotated[str | None, Parameter(name="--from", help="Show from this point on: a time (UTC) or partition:offset.")]
To = Annotated[str | None, Parameter(name="--to", help="End of the story: nothing behind this point is read.")]
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
    output: Shown = "text",
) -> int:
    """Tell what happened, and beside each decision what was known then and what is true now. Needs no database, changes nothing.

    For example:

        landed replay --tenant acme --group trip-7

        landed replay --tenant acme --operation refund-17 --at 2026-11-30T09:17:00

        landed replay incident.landed --at 3:812 --at 3:840 -o jsonl

        landed replay incident.landed -o html > incident.html
    """
    from landed_services.replay.telling import Story

    require("--at", len(at) <= 2, "may be given once or twice")
    require("--output", not at or output != "html", "html shows the timeline, so it does not go with --at")
    cuts = [_point("--at", text) for text in at]
    scope = _scope(tenant, all_tenants or file is not None, group, operation, tool, from_, to)
    with _items(file, scope) as (items, narrowed):
        story = Story(narrowed, cuts)
        if cuts:
            for _ in story.lines(items):
                pass
            _print_points(story, len(cuts), output)
        else:
            _print_story(story, items, output)
    if output == "text":
        taken = f", {counted(story.not_taken, 'record')} not taken" if story.not_taken else ""
        note(f"{counted(story.events, 'event')}{taken}")
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
    output: Listed = "text",
) -> int:
    """Write part of the topic to one file that tells the same story anywhere: whole groups, from their first event on.

    For example:

        landed replay export incident.landed --tenant acme --group trip-7
    """
    from landed_services.replay.bundle import Head, write_bundle

    require("FILE", not file.exists(), f"{file} is there already, and nothing is overwritten")
    scope = _scope(tenant, all_tenants, group, operation, None, None, to)
    asked = {"tenant": tenant, "group": group, "operation": operation, "to": to}
    topic, ring, name = _topic()
    with _progress() as say:
        narrowed = topic.find(scope, say)
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
            written = write_bundle(file, head, _read(records, narrowed, ring, topic.partitions), ring)
        except OSError as error:
            raise CommandFailed(f"{file}: cannot be written: {error.strerror or error}", Exit.SETUP) from error
    if output == "text":
        print(f"{counted(written.records, 'record')} in {file}")
        print(f"signed under key {written.signed_by}" if written.signed_by else "not signed: LANDED_WRITER_KEY is not set")
    else:
        print_json(msgspec.to_builtins(written))
    return Exit.DONE


# ---- what is asked ----------------------------------------------------------------------------------------------------


def _scope(
    tenant: str | None,
    may_be_all: bool,
    group: str | None,
    operation: str | None,
    tool: str | None,
    from_: str | None,
    to: str | None,
) -> Scope:
    from landed_services.replay.scope import Scope

    tenant_id = tenant or (None if may_be_all else os.environ.get("LANDED_TENANT") or None)
    require("--tenant", may_be_all or tenant_id is not None, "say whose operations: --tenant, LANDED_TENANT, or --all-tenants")
    if tenant_id is not None:
        check_id("tenant", tenant_id)
    return Scope(
        tenant_id=tenant_id,
        group=group,
        operation_id=operation,
        tool=tool,
        first=None if from_ is None else _point("--from", from_),
        until=None if to is None else _point("--to", to),
    )


def _point(option: str, text: str) -> Cut:
    from landed_services.replay.asking import point

    try:
        return point(text)
    except ValueError as error:
        raise CommandFailed(f"{option}: {error}", Exit.USAGE) from error


# ---- where it is read -------------------------------------------------------------------------------------------------


@contextmanager
def _items(file: Path | None, scope: Scope) -> Iterator[tuple[Iterable[Item], Scope]]:
    """What is to be told, and the scope with the routes of the operation that it asks for."""
    if file is None:
        topic, ring, _ = _topic()
        with _progress() as say:
            narrowed = topic.find(scope, say)
            yield _read(topic.records(narrowed, say), narrowed, ring, topic.partitions), narrowed
        return
    from landed_services.replay.bundle import Bundle

    try:
        bundle = Bundle(file, _ring())
    except OSError as error:
        raise CommandFailed(f"{file}: cannot be read: {error.strerror or error}", Exit.USAGE) from error
    checked = bundle.checked
    whose = f"signed under key {checked.signed_by}" if checked.signed_by else "not signed"
    proof = "proven" if checked.proven else "whole, but its origin is not proven: this process has no key that it is signed under"
    note(f"{file}: {counted(checked.records, 'record')} of topic {checked.head.topic}, {whose}: {proof}")
    if scope.operation_id is not None and scope.group is None:
        named = (scope.names_operation(item.record.key) for item in bundle.items())
        scope = msgspec.structs.replace(scope, routes=frozenset(route for route in named if route is not None))
    yield bundle.items(), scope


def _read(records: Iterable[Record], scope: Scope, ring: KeyRing, partitions: int) -> Iterator[Item]:
    from landed_services.reading import read_item

    for record in records:
        if scope.admits_key(record.key):
            yield read_item(record, ring=ring, partitions=partitions)


def _ring() -> KeyRing:
    from landed.core.contract import Problem
    from landed.sdk.errors import SettingsError
    from landed.sdk.settings import key_ring

    found: list[Problem] = []
    ring = key_ring(os.environ, found)
    if found:
        raise SettingsError("settings", found)
    return ring


def _topic() -> tuple[Topic, KeyRing, str]:
    from landed_services.replay.topic import Topic

    from ._settings import kafka_alone, log_settings

    settings = log_settings(kafka_alone(), client_id="landed-replay")
    return Topic(settings), settings.ring, settings.topic


@contextmanager
def _progress() -> Iterator[Any]:
    """Says how far a reading is, to a person who watches."""
    if not sys.stderr.isatty():
        yield None
        return

    def say(now: Progress) -> None:
        left = "" if now.left_s is None else f", {now.left_s:.0f} s left"
        print(f"\r{now.done:,} of {now.total:,} offsets, {now.rate:,.0f}/s{left}\033[K", end="", file=sys.stderr, flush=True)

    try:
        yield say
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


# ---- how it is shown --------------------------------------------------------------------------------------------------


def _print_story(story: Story, items: Iterable[Item], output: str) -> None:
    if output == "json":
        events = list(story.lines(items))
        print_json({"events": msgspec.to_builtins(events), "decisions": msgspec.to_builtins(list(story.decisions()))})
        return
    if output == "jsonl":
        for line in story.lines(items):
            _print_object("event", line)
        for one in story.decisions():
            _print_object("decision", one)
        return
    if output == "html":
        from landed_services.replay.report import report

        lines = list(story.lines(items))
        for piece in report(lines, list(story.decisions()), title="What was known when, and who decided"):
            print(piece, end="")
        return
    from landed_services.replay.showing import line_text, told_text

    for line in story.lines(items):
        print("\n".join(line_text(line)))
    for number, one in enumerate(story.decisions()):
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
                _print_object("change", one)
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
            _print_object("operation", state)


def _print_object(kind: str, value: Any) -> None:
    print(msgspec.json.encode({"is": kind, **msgspec.to_builtins(value)}).decode())
