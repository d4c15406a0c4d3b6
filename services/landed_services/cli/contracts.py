"""``landed contracts``: what the tools of a registry or a file declare, where that is weak, and what must change."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from landed.core.contract_schema import contracts_schema
from landed_services.trust.checking import Report, ToolReport
from landed_services.trust.checking import check as check_target

from ._exit import Exit
from ._output import Format, counted, print_json, print_text, print_value
from ._tools import import_from_here

contracts = App(
    name="contracts",
    help="Check contracts of tools; print the JSON Schema of contract files."
    "\n\nFor example:\n\n    landed contracts check contracts.yaml\n\n    landed contracts schema",
    help_format="plaintext",
)


@contracts.command
def check(
    target: Annotated[str, Parameter(help="A file (.yaml, .json), or your registry of tools as module:attribute.")],
    *,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="", help="Only warnings and errors.")] = False,
    output: Format = "text",
) -> int:
    """Check every contract: its five parts as questions with the answers, warnings where it is weak, errors.

    Exit code 1: there are errors. Each names tool, field and rule. Nothing is called.

    For example:

        landed contracts check contracts.yaml

        landed contracts check acme.tools:registry -o json
    """
    import_from_here()
    report = check_target(target)
    if output != "text":
        print_value(msgspec.to_builtins(report), output)
    else:
        for tool in report.tools:
            _print_tool(tool, quiet=quiet)
        _print_end(report)
    return Exit.FOUND if report.errors else Exit.DONE


@contracts.command
def schema() -> int:
    """Print the JSON Schema of contract files, for editors and other tools.

    For example:

        landed contracts schema > contracts.schema.json
    """
    print_json(contracts_schema())
    return Exit.DONE


def _print_tool(tool: ToolReport, *, quiet: bool) -> None:
    if quiet and not tool.weak:
        return
    print_text(f"{tool.tool}" + (f" ({tool.file})" if tool.file else ""))
    if not quiet:
        width = max(len(one.question) for one in tool.questions)
        part = ""
        for one in tool.questions:
            if one.part != part:
                part = one.part
                print(f"  {part}")
            print_text(f"{one.question:{width}}  {one.answer}", indent=" " * 4, rest=" " * (width + 6))
        if tool.drill is not None:
            lag = "never seen" if tool.drill.lag_s is None else f"seen within {tool.drill.lag_s:.2f} s"
            seen = f"key {tool.drill.key}, {lag}, absence {tool.drill.absence}, receipt {tool.drill.receipt}"
            print_text(f"drill at {tool.drill.provider}: {seen.replace('_', ' ')}", indent="  ", rest="    ")
    for weak in tool.weak:
        print_text(f"warning  {weak}", indent="  ", rest=" " * 11)
    print()


def _print_end(report: Report) -> None:
    for error in report.errors:
        print_text(f"error  {report.target}: {error}", rest=" " * 7)
    weak = sum(len(tool.weak) for tool in report.tools)
    counts = (counted(len(report.tools), "contract"), counted(len(report.errors), "error"), counted(weak, "warning"))
    print_text(f"{report.target}: {', '.join(counts)}")
