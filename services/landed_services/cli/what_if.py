"""``landed replay what-if``: the recorded facts under other policies, contracts, or this release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from ._exit import CommandFailed, Exit
from ._output import Format, note, print_json
from ._replaying import AllTenants, From, Group, Operation, Tenant, To, Tool, items_of, print_object, scope_of

if TYPE_CHECKING:
    from landed_services.replay.terms import Terms


def what_if(
    file: Annotated[Path | None, Parameter(help="A bundle; without one the topic is read.")] = None,
    /,
    *,
    policy: Annotated[Path | None, Parameter(help="Policies by key, YAML or JSON, in place of those on the log.")] = None,
    contracts: Annotated[Path | None, Parameter(help="Contract file, in place of the contracts on the log, by tool.")] = None,
    tenant: Tenant = None,
    all_tenants: AllTenants = False,
    group: Group = None,
    operation: Operation = None,
    tool: Tool = None,
    from_: From = None,
    to: To = None,
    output: Format = "text",
) -> int:
    """List every decision that would differ under other policies or contracts; with neither, in this release. Changes nothing.

    Told is the first difference of each operation: what would have followed nobody knows. Exit code 1: this release decides
    otherwise than it is recorded, under the recorded terms.

    For example:

        landed replay what-if incident.landed --policy stricter.yaml

        landed replay what-if --tenant acme --contracts contracts.yaml --from 2026-11-30T09:00:00

        landed replay what-if incident.landed -o json
    """
    from landed_services.replay.compared import By
    from landed_services.replay.what_if import WhatIf

    given = _terms(policy, contracts)
    scope = scope_of(tenant, all_tenants or file is not None, group, operation, tool, from_, to)
    scope = msgspec.structs.replace(scope, policies=True)
    other_release = 0
    told = []
    with items_of(file, scope) as (items, narrowed, whole):
        run = WhatIf(narrowed, given, whole=whole)
        for one in run.differences(items):
            other_release += one.by is By.BUILD
            if output == "text":
                from landed_services.replay.showing import difference_text

                print("\n".join(difference_text(one)))
            elif output == "jsonl":
                print_object("difference", one)
            else:
                told.append(one)
    if output == "json":
        print_json({"differences": msgspec.to_builtins(told), "summary": msgspec.to_builtins(run.tally)})
    elif output == "jsonl":
        print_object("summary", run.tally)
    else:
        from landed_services.replay.showing import tally_text

        print("\n".join(tally_text(run.tally)))
    source = "the topic" if file is None else str(file)
    recorded = ", ".join(run.policies)
    note(f"Recorded policies, from {source}: {recorded}" if recorded else f"{source}: no policy is on record there")
    if other_release:
        note("this release decides otherwise than it is recorded")
    return Exit.FOUND if other_release else Exit.DONE


def _terms(policy: Path | None, contracts: Path | None) -> Terms | None:
    if policy is None and contracts is None:
        return None
    from landed.adapters.authorizing import check
    from landed.core.policy import PolicyError
    from landed.sdk.contract_files import load_contracts, read_document
    from landed.sdk.errors import ContractError
    from landed_services.replay.terms import policies_from, terms

    try:
        policies = {} if policy is None else policies_from(read_document(policy))
        for key, value in policies.items():
            if value is not None:
                check(key, value)
    except (ContractError, PolicyError) as error:
        raise CommandFailed(f"--policy: {policy}: {error}", Exit.USAGE) from error
    try:
        found = () if contracts is None else load_contracts(contracts)
    except ContractError as error:
        raise CommandFailed(f"--contracts: {error}", Exit.USAGE) from error
    return terms(policies, found)
