"""What the commands of ``landed replay`` share: which part of a log is asked for, and where it is read."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from landed.core.identity import check_id

from ._exit import CommandFailed, Exit, require
from ._output import counted, note
from ._progress import progress

if TYPE_CHECKING:
    from landed.wire.mac import KeyRing
    from landed.wire.records import Record
    from landed_services.reading import Item
    from landed_services.replay.parts import InParts
    from landed_services.replay.scope import Cut, Scope
    from landed_services.replay.topic import Topic

Tenant = Annotated[str | None, Parameter(help="Whose operations; else LANDED_TENANT.")]
AllTenants = Annotated[bool, Parameter(name="--all-tenants", negative="", help="Those of all tenants.")]
Group = Annotated[str | None, Parameter(help="Only this group; for an operation without one, its own id.")]
Operation = Annotated[
    str | None,
    Parameter(help="Only this operation, by its id or a beginning of it; with --group the whole id, found at once."),
]
Tool = Annotated[str | None, Parameter(help="Only operations of this tool.")]
From = Annotated[str | None, Parameter(name="--from", help="Show from this point on: a time (UTC) or partition:offset.")]
To = Annotated[str | None, Parameter(name="--to", help="End of the story: nothing behind this point is read.")]


# ---- what is asked ----------------------------------------------------------------------------------------------------


def scope_of(
    tenant: str | None,
    may_be_all: bool,
    group: str | None,
    operation: str | None,
    tool: str | None,
    from_: str | None,
    to: str | None,
) -> Scope:
    from landed_services.replay.scope import Scope

    return Scope(
        tenant_id=tenant_of(tenant, may_be_all),
        group=group,
        operation_id=operation,
        tool=tool,
        first=None if from_ is None else point_of("--from", from_),
        until=None if to is None else point_of("--to", to),
    )


def tenant_of(tenant: str | None, may_be_all: bool) -> str | None:
    """Whose operations are asked for; None: those of all tenants."""
    tenant_id = tenant or (None if may_be_all else os.environ.get("LANDED_TENANT") or None)
    require("--tenant", may_be_all or tenant_id is not None, "say whose operations: --tenant, LANDED_TENANT, or --all-tenants")
    if tenant_id is not None:
        check_id("tenant", tenant_id)
    return tenant_id


def point_of(option: str, text: str) -> Cut:
    from landed_services.replay.asking import point

    try:
        return point(text)
    except ValueError as error:
        raise CommandFailed(f"{option}: {error}", Exit.USAGE) from error


def located(scope: Scope) -> Scope:
    """*scope* with where the database knows it to lie; as it is where the database knows nothing of it."""
    from landed_services.queries.places import places_of

    from ._settings import database_settings, ledger_servers

    require("--locate", scope.tenant_id is not None, "needs --tenant")
    require("--locate", scope.group is not None or scope.operation_id is not None, "finds a --group or an --operation")
    places = places_of(
        database_settings(ledger_servers()), scope.tenant_id or "", route=scope.group, operation_id=scope.operation_id
    )
    if not places:
        note("The database knows nothing of it: the topic is read")
        return scope
    within: dict[int, tuple[int, int, int]] = {}
    for one in places:
        first, last, _ = within.get(one.partition, (one.first_offset, 0, 0))
        within[one.partition] = (min(first, one.first_offset), max(last, one.last_offset + 1), one.folded_to)
    routes = frozenset((scope.tenant_id or "", one.route) for one in places)
    return msgspec.structs.replace(scope, within=within, routes=routes)


# ---- where it is read -------------------------------------------------------------------------------------------------


@contextmanager
def items_of(file: Path | None, scope: Scope, *, opened: Topic | None = None) -> Iterator[tuple[Iterable[Item], Scope, bool]]:
    """What is to be told, the scope with the routes of the operation that it asks for, and whether whole tenants are read."""
    whole = scope.group is None and scope.operation_id is None
    if file is None:
        topic = opened or topic_of()[0]
        with progress() as say:
            narrowed = topic.find(scope, say)
            yield read(topic.records(narrowed, say), narrowed, topic.settings.ring, topic.partitions), narrowed, whole
        return
    from landed_services.replay.bundle import Bundle
    from landed_services.replay.naming import Named
    from landed_services.replay.policies import without_policies

    try:
        bundle = Bundle(file, _ring())
    except OSError as error:
        raise CommandFailed(f"{file}: cannot be read: {error.strerror or error}", Exit.USAGE) from error
    checked = bundle.checked
    whose = f"signed under key {checked.signed_by}" if checked.signed_by else "not signed"
    proof = "proven" if checked.proven else "whole, but its origin is not proven: this process has no key that it is signed under"
    note(f"{file}: {counted(checked.records, 'record')} of topic {checked.head.topic}, {whose}: {proof}")
    if scope.operation_id is not None and scope.group is None:
        named = Named(scope)
        for item in bundle.items():
            named.take(item.record.key)
        scope = named.scope
    part = bool(checked.head.scope.keys() & {"group", "operation"})
    # The policies that were put beside a group are no part of its story.
    items = without_policies(bundle.items()) if part and not scope.policies else bundle.items()
    yield items, scope, whole and not part


def read(records: Iterable[Record], scope: Scope, ring: KeyRing, partitions: int) -> Iterator[Item]:
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


def topic_of() -> tuple[Topic, KeyRing, str]:
    from landed_services.replay.topic import Topic

    from ._settings import kafka_alone, log_settings

    settings = log_settings(kafka_alone(), client_id="landed-replay")
    return Topic(settings), settings.ring, settings.topic


@contextmanager
def told_in_parts(topic: Topic, scope: Scope, processes: int | None) -> Iterator[InParts | None]:
    """The story of a topic that several processes read; None where one is enough."""
    from contextlib import closing

    from landed_services.fanning import processes_for
    from landed_services.replay.parts import OFFSETS_OF_A_PROCESS, InParts

    if processes == 1 or scope.operation_id is not None:
        yield None  # those of one operation lie in one partition, nearly always
        return
    spans = topic.spans(scope)
    offsets = sum(end - begin for begin, end in spans.values())
    of = processes or processes_for(offsets, OFFSETS_OF_A_PROCESS)
    if min(of, len(spans)) <= 1:
        yield None
        return
    with progress() as say:
        parts = InParts(topic, scope, processes=of, say=say)
    with closing(parts):
        yield parts


# ---- how it is shown --------------------------------------------------------------------------------------------------


def print_object(kind: str, value: Any) -> None:
    said = msgspec.json.encode(value)
    print(f'{{"is":"{kind}"' + ("" if said == b"{}" else ",") + said[1:].decode())


def print_array(name: str, values: Iterable[Any], *, before: str) -> None:
    """A member of a JSON object that may be longer than fits into memory, indented; *before* is what stands before it."""
    print(f'{before}\n  "{name}": [', end="")
    for number, value in enumerate(values):
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
        print(("," if number else "") + "\n" + textwrap.indent(text, "    "), end="")
    print("\n  ]", end="")
