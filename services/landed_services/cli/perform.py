"""``landed perform``: one call of a tool by hand, recorded and done once like any other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from ._confirm import confirm
from ._exit import CommandFailed, Exit, require
from ._output import Format, plain, print_text, print_value
from ._settings import kafka_alone
from ._tools import tool_named

if TYPE_CHECKING:
    from landed.sdk.results import Result
    from landed.sdk.settings import Settings
    from landed.sdk.tools import Tool


def perform(
    tool: Annotated[str, Parameter(help="The tool as module:function; or a registry as module:attribute, with --tool.")],
    /,
    *,
    contract: Annotated[Path | None, Parameter(help="File with the contract of a plain function (.yaml, .json).")] = None,
    name: Annotated[str | None, Parameter(name="--tool", help="Which contract of the file, or tool of the registry.")] = None,
    args: Annotated[str, Parameter(help="Arguments as a JSON object, or @FILE.")] = "{}",
    operation: Annotated[str | None, Parameter(help="Operation id; else the contract's business key, or group and step.")] = None,
    group: Annotated[str | None, Parameter(help="Group that it belongs to; opened where it is new.")] = None,
    workflow_type: Annotated[str | None, Parameter(help="What the group is for; goes with --group.")] = None,
    step: Annotated[str | None, Parameter(help="Names the operation within the group.")] = None,
    replaces: Annotated[str | None, Parameter(help="Operation that this one corrects.")] = None,
    approval: Annotated[str | None, Parameter(help="Approval that the policy asked for.")] = None,
    retry: Annotated[bool, Parameter(negative="", help="Take a retry that was offered after proven absence.")] = False,
    wait: Annotated[float | None, Parameter(help="Seconds to wait for the verdict at most.")] = None,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Do not ask.")] = False,
    tenant: Annotated[str | None, Parameter(help="Whose ledger; else LANDED_TENANT.")] = None,
    output: Format = "text",
) -> int:
    """Perform an operation: claim it, call the tool once, record what came of it. A repeat calls nothing and tells what is known.

    Exit code 0: confirmed. 1: rejected, unknown, with a person, or refused; never try `unknown` again by other means.
    4: the ledger could not be reached, and nothing was called.

    For example:

        landed perform acme.tools:issue_refund --contract contracts.yaml --args '{"order": "A-7"}' --operation refund-17

        landed perform acme.tools:registry --tool payments.refund --args @refund.json --operation refund-17 --retry -o json
    """
    require("--group", (group is None) == (workflow_type is None), "goes with --workflow-type")
    require("--step", step is None or group is not None, "goes with --group")
    from landed.sdk.intent import intent_for
    from landed.sdk.settings import settings_from

    given = tool_named(tool, contract, name)
    arguments = _arguments(args)
    options: dict[str, Any] = {"operation_id": operation, "replaces": replaces, "approval_id": approval, "retry": retry}
    if group is not None:
        options["step"] = step
    # What is wrong with the call is said before anything is asked or connected.
    intent = intent_for(given, arguments, group_id=group, wait_s=wait, **options)
    settings = settings_from(f"kafka://{kafka_alone().bootstrap}", tenant=tenant, wait=wait)
    sent = msgspec.json.encode(intent.arguments, enc_hook=str).decode()
    question = f"{given.name} as {intent.operation_id} of tenant {settings.tenant} with {sent}: perform it?"
    confirm(plain(question), yes=yes, why="the tool has an effect", otherwise="Nothing was called.")
    run = _run_async(settings, given, group, workflow_type, {**options, **arguments}) if given.is_async else None
    result = _run(settings, given, group, workflow_type, {**options, **arguments}) if run is None else asyncio.run(run)
    return _show(result, output)


def _arguments(text: str) -> dict[str, Any]:
    try:
        content = Path(text[1:]).read_bytes() if text.startswith("@") else text.encode()
        return msgspec.json.decode(content, type=dict[str, Any])
    except OSError as error:
        raise CommandFailed(f"--args: {text[1:]}: {error.strerror or error}", Exit.USAGE) from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise CommandFailed(f"--args: must be a JSON object: {error}", Exit.USAGE) from None


def _run(settings: Settings, tool: Tool[..., Any], group: str | None, workflow_type: str | None, call: dict[str, Any]) -> Result:
    from landed.sdk.ledger import Ledger

    with Ledger.connect(settings) as ledger:
        if group is None or workflow_type is None:
            return ledger.perform(tool, **call)
        return ledger.group(group, workflow_type=workflow_type).perform(tool, **call)


async def _run_async(
    settings: Settings, tool: Tool[..., Any], group: str | None, workflow_type: str | None, call: dict[str, Any]
) -> Result:
    from landed.sdk.async_ledger import AsyncLedger

    async with AsyncLedger.connect(settings) as ledger:
        if group is None or workflow_type is None:
            return await ledger.perform(tool, **call)
        return await ledger.group(group, workflow_type=workflow_type).perform(tool, **call)


def _show(result: Result, output: Format) -> int:
    from landed.core.vocabulary import Refusal
    from landed.sdk.results import Confirmed, Refused

    if output == "text":
        print_text(f"{result.operation_id}: {_said(result)}")
    else:
        # What the tool returned is the caller's, and may be anything.
        fields = {name: getattr(result, name) for name in result.__struct_fields__ if name != "answer"}
        print_value({"result": type(result).__name__.lower(), **msgspec.to_builtins(fields)}, output)
    if isinstance(result, Confirmed):
        return Exit.DONE
    out_of_reach = isinstance(result, Refused) and result.reason is Refusal.LEDGER_UNAVAILABLE
    return Exit.FAILED if out_of_reach else Exit.FOUND


def _said(result: Result) -> str:
    from landed.sdk.results import Confirmed, Escalated, Rejected, Unknown

    match result:
        case Confirmed():
            reference = f", reference {result.reference}" if result.reference else ""
            removed = "; somebody else removed it since" if result.removed_at_ms is not None else ""
            repeated = " (by an earlier call; nothing was called now)" if result.repeated else ""
            return f"confirmed{reference}{removed}{repeated}"
        case Rejected():
            return f"rejected ({result.reason}): there is no effect"
        case Unknown():
            return f"unknown ({result.reason}). Do not try again by other means: the ledger finds out"
        case Escalated():
            return f"a person decides ({result.reason}): landed reviews show {result.operation_id}"
        case _:
            details = "".join(f"; {field}: {text}" for field, text in result.detail.items())
            return f"refused ({result.reason.value}): nothing was called{details}"
