"""``landed show``, ``landed plan`` and ``landed unwind``: what became of a group or an operation, and undoing it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import App, Parameter

from ._confirm import confirm
from ._exit import CommandFailed, Exit
from ._output import Format, plain, print_table, print_text
from ._people import Person, Tenant, Yes, desk, person, print_one
from .timeline import print_rows

if TYPE_CHECKING:
    from landed.core.plan import Plan
    from landed_services.queries.containment import Contained
    from landed_services.queries.groups import Group

show = App(
    name="show",
    help="What became of an operation or a group."
    "\n\nFor example:\n\n    landed show operation refund-17\n\n    landed show group trip-9 -o json",
    help_format="plaintext",
)
Name = Annotated[
    str,
    Parameter(
        help="Group id, or its beginning where that fits only one; an operation without a group; or what a breaker contained."
    ),
]


@show.command
def group(name: Name, *, tenant: Tenant = None, output: Format = "text") -> int:
    """Show a group: which effects exist, which might, what can be undone safely, and who may decide what comes next.

    For example:

        landed show group trip-17

        landed show group trip-17 -o json
    """
    from landed_services.queries.containment import Contained, named, show_contained
    from landed_services.queries.groups import show_group

    with desk(tenant) as at:
        found = named(at.connection, at.tenant_id, name)
        shown = show_contained(at.connection, found) if isinstance(found, Contained) else show_group(at.connection, found)
    if output != "text":
        print_one(shown, output, "")
        return Exit.DONE
    of = f", {shown.workflow_type}" if shown.workflow_type else ""
    print_text(f"group {shown.group_id}: {shown.state}{of}")
    for title, text in (("request", shown.intent_ref), ("parent", shown.parent_group)):
        if text:
            print_text(f"{title} {text}")
    for child, state in shown.children:
        print_text(f"child group {child}: {state}")
    print()
    rows = [(one.operation_id, one.exists.value, one.undo, one.decides) for one in shown.operations]
    print_table(("operation", "exists", "undo", "who decides next"), rows)
    if shown.irreversible:
        print_text(f"Nothing takes back: {', '.join(shown.irreversible)}.")
    print_text(shown.next_step)
    return Exit.DONE


@show.command
def operation(
    name: Annotated[str, Parameter(help="Operation id, or its beginning where that fits only one.")],
    *,
    tenant: Tenant = None,
    output: Format = "text",
) -> int:
    """Show an operation with its timeline.

    For example:

        landed show operation refund-17
    """
    from landed_services.queries.groups import operation_named, show_operation

    with desk(tenant) as at:
        shown = show_operation(at.connection, operation_named(at.connection, at.tenant_id, name))
    if output != "text":
        print_one(shown, output, "")
        return Exit.DONE
    print_text(f"operation {shown.operation_id}: {shown.state} ({shown.label})")
    print_text(shown.sentence)
    facts = (
        ("tool", f"{shown.tool}, {shown.effect_type}"),
        ("group", shown.group_id or "none"),
        ("attempts", f"{shown.attempts}; references: {', '.join(shown.references) or 'none'}"),
        ("review", shown.review or "none"),
    )
    for title, text in facts:
        print_text(f"{title:10} {text}", rest=" " * 11)
    print()
    print_rows(shown.timeline)
    return Exit.DONE


def plan(name: Name, *, tenant: Tenant = None, output: Format = "text") -> int:
    """Show the plan of a group: which inverses, in which order, and why; before it unwinds, what unwinding would do.

    For example:

        landed plan trip-17 -o json
    """
    from landed_services.queries.containment import named

    with desk(tenant) as at:
        found = _planned(named(at.connection, at.tenant_id, name))
    _print_plan(found, output)
    return Exit.DONE


def unwind(
    name: Name,
    *,
    reason: Annotated[str, Parameter(help="Why; recorded with the request.")],
    by: Person = None,
    inputs: Annotated[Path | None, Parameter(help="JSON file: inputs for an inverse, by operation id.")] = None,
    yes: Yes = False,
    tenant: Tenant = None,
    output: Format = "text",
) -> int:
    """Undo a group: no forward step starts any more, and its effects are taken back by the plan. Repeating changes nothing.

    For example:

        landed unwind trip-17 --reason "card declined" --by anna
    """
    from landed_services.people.unwinding import unwind as have_undone
    from landed_services.people.unwinding import unwind_contained
    from landed_services.queries.containment import Contained, named

    given = None if inputs is None else _inputs(inputs)
    with desk(tenant, decides=True) as at:
        known = named(at.connection, at.tenant_id, name)
        who, before = person(by), _planned(known)
        if not yes and output == "text":
            _print_plan(before, output)
        confirm(f"undo group {plain(before.group_id)} of tenant {at.tenant_id}, as {who}?", yes=yes)
        if isinstance(known, Contained):
            found = unwind_contained(at.log, at.connection, known, by=who, reason=reason, inputs=given)
        else:
            found = have_undone(at.log, at.connection, known, by=who, reason=reason, inputs=given)
    _print_plan(found, output)
    return Exit.DONE


def _planned(found: Group | Contained) -> Plan:
    from landed_services.queries import containment, groups

    return containment.plan_of_contained(found) if isinstance(found, containment.Contained) else groups.plan_of(found)


def _inputs(path: Path) -> str:
    try:
        document = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, Any]])
    except OSError as error:
        raise CommandFailed(f"--inputs: {path}: {error.strerror}", Exit.USAGE) from None
    except msgspec.MsgspecError as error:
        raise CommandFailed(f"--inputs: {path}: must be an object of inputs by operation id: {error}", Exit.USAGE) from None
    return msgspec.json.encode(document).decode()


def _print_plan(found: Any, output: str) -> None:
    if output != "text":
        print_one(found, output, "")
        return
    print_text(f"group {found.group_id}: {found.state}")
    if found.steps:
        rows = [
            (str(one.order), one.operation_id, one.decision.value, one.compensation.tool if one.compensation else "none")
            for one in found.steps
        ]
        print_table(("order", "operation", "decision", "inverse"), rows)
        for one in found.steps:
            print_text(f"{one.order}. {one.operation_id}: {one.reason}. {one.explanation}")
    for title, some in (("nothing takes back", found.irreversible), ("outcome unknown", found.unresolved)):
        if some:
            print_text(f"{title}: " + ", ".join(f"{one.operation_id} ({one.effect_type})" for one in some))
    if found.skipped:
        print_text("nothing to undo: " + ", ".join(f"{one.operation_id} ({one.reason})" for one in found.skipped))
    print_text(found.next_step)
