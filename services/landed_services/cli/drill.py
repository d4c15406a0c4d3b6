"""``landed drill``: whether a provider does what the contract says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from ._confirm import confirm
from ._exit import CommandFailed, Exit, require
from ._output import Format, counted, note, print_value
from ._people import person
from ._progress import progress
from ._tools import registry_named, tool_in


def drill(
    tool: Annotated[str, Parameter(help="Name of the tool.")],
    *,
    tools: Annotated[str, Parameter(help="Your registry of tools, as module:attribute.")],
    samples: Annotated[int, Parameter(help="Calls of which the lag is measured.")] = 3,
    wait: Annotated[float, Parameter(help="Seconds that an effect is waited for at most.")] = 10.0,
    yes: Annotated[
        bool, Parameter(name=["--yes", "-y"], negative="", help="Also on a provider that is not on this machine.")
    ] = False,
    out: Annotated[Path | None, Parameter(help="File of results; else one beside the contract.")] = None,
    by: Annotated[str | None, Parameter(help="Who runs it, recorded; else LANDED_USER, else your login name.")] = None,
    output: Format = "text",
) -> int:
    """Try a tool's contract on the provider that its stage gives: effects are made there.

    Is the key honoured, how late does a look-up see an effect, is absence reliable, is a receipt stable, is an effect found whose
    answer was lost. The result is kept beside the contract, where `landed contracts check` compares. Exit code 1: the contract
    declares something else.

    For example:

        landed drill payments.refund --tools acme.tools:registry

        landed drill payments.refund --tools acme.tools:registry --yes -o json
    """
    require("--samples", 1 <= samples <= 1000, "must be 1 to 1000")
    require("--wait", 0 < wait <= 3600, "must be greater than 0 and at most 3600 (seconds)")
    registry = registry_named(tools)
    found = tool_in(registry, tool, tools)
    if found.stage_function is None:
        raise CommandFailed(f"TOOL: {tool!r} has no stage: register one with @tool.stage", Exit.SETUP)
    from landed_services.trust.checking import results_path
    from landed_services.trust.drilling import drill as try_out
    from landed_services.trust.drilling import is_local, place_of
    from landed_services.trust.results import keep_result

    note(f"drill: bringing up the stage of {tool}")
    with found.stage_function() as stage:
        place = place_of(stage.url)
        if not is_local(stage.url):
            question = f"{place} is not on this machine. Make effects of {tool} there?"
            confirm(question, yes=yes, why="the provider is not on this machine", otherwise="Nothing was called.")
        note(f"drill: {tool} at {place}")
        with progress("steps") as say:
            result = try_out(found, stage, samples=samples, wait_s=wait, by=person(by), say=say)
    path = results_path(registry, tools, found.name) if out is None else out.absolute()
    keep_result(path, result)
    if output != "text":
        print_value(msgspec.to_builtins(result), output)
    else:
        lag = "never seen" if result.lag_s is None else f"{result.lag_s:.2f} s after its answer at most"
        for asked, answer in (
            ("Is the key honoured?", result.key),
            ("How late is an effect seen?", lag),
            ("Is absence reliable?", result.absence),
            ("Is a receipt stable?", result.receipt),
            ("Is it found when the answer is lost?", result.lost_answer),
        ):
            print(f"  {asked:37} {answer.replace('_', ' ')}")
        for one in result.differences:
            print(f"differs  {tool}.{one}")
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        print(f"{tool}: {counted(len(result.differences), 'difference')}; kept in {shown}")
    return Exit.FOUND if result.differences else Exit.DONE
