"""``landed policies``: what a tenant allows, with who changed what and why."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from ._confirm import confirm
from ._exit import CommandFailed, Exit, require
from ._output import Format, plain
from ._people import Person, Tenant, Yes, desk, person, print_one, print_values

policies = App(
    name="policies",
    help="What a tenant allows: tools, ceilings, automatic inverses."
    "\n\nFor example:\n\n    landed policies list\n\n    landed policies history tool:payments.refund",
    help_format="plaintext",
)
LIMIT_MAX = 10_000
Key = Annotated[str, Parameter(help="tool:<tool>, tool:*, ceiling:<effect type>, ceiling:*, automatic or compensation.")]


@policies.command(name="list")
def list_(*, tenant: Tenant = None, output: Format = "text") -> int:
    """List the policies that were ever set, with their versions.

    For example:

        landed policies list
    """
    from landed_services.queries.policies import policies as known

    with desk(tenant) as at:
        found = known(at.connection, at.tenant_id)
    rows = [(one.key, str(one.version), _shown(one.value) + ("" if one.readable else " [cannot be read]")) for one in found]
    print_values(
        found,
        output,
        columns=("policy", "version", "value"),
        rows=rows,
        empty="No policy is set: what has a contract is allowed, but for inverses.",
    )
    return Exit.DONE


@policies.command
def show(key: Key, *, tenant: Tenant = None, output: Format = "text") -> int:
    """Show one policy.

    For example:

        landed policies show tool:refund
    """
    from landed.core.policy import check_key
    from landed_services.queries.policies import policies as known

    check_key(key)
    with desk(tenant) as at:
        one = next((one for one in known(at.connection, at.tenant_id) if one.key == key), None)
    if one is None:
        raise CommandFailed(f"there is no policy {key}", Exit.FOUND)
    print_one(one, output, f"{plain(one.key)} (version {one.version}): {plain(_shown(one.value))}")
    return Exit.DONE


@policies.command(name="set")
def set_(
    key: Key,
    value: Annotated[str | None, Parameter(help="JSON; docs/policies.md lists the fields.")] = None,
    /,
    *,
    why: Annotated[str, Parameter(help="Recorded with the change.")],
    remove: Annotated[bool, Parameter(negative="", help="Remove the policy.")] = False,
    version: Annotated[int | None, Parameter(help="The version that you saw; refused where it is another one by now.")] = None,
    by: Person = None,
    yes: Yes = False,
    tenant: Tenant = None,
    output: Format = "text",
) -> int:
    """Set or remove a policy. When this command ends, every claim that is decided from then on is decided by it.

    For example:

        landed policies set tool:refund '{"approval": true, "approval_wait": 60}' --why "audit" --yes

        landed policies set 'tool:*' '{"observe": true}' --why "first week" --yes

        landed policies set tool:refund --remove --why "audit is over" --yes
    """
    require("value", (value is None) is remove, "give either a value or --remove")
    from landed.adapters.authorizing import check
    from landed.core.policy import parsed
    from landed_services.people.policies import set_policy

    if value is not None:
        check(key, parsed(key, value))
    with desk(tenant, decides=True) as at:
        who = person(by)
        what = "remove" if value is None else f"set to {value}"
        confirm(f"policy {plain(key)} of tenant {at.tenant_id}: {what}, as {who}?", yes=yes)
        done = set_policy(at.log, at.connection, at.tenant_id, key, value, who=who, why=why, version=version)
    said = "is" if done.changed else "was already"
    print_one(done, output, f"{plain(done.key)} {said} at version {done.version}: {plain(_shown(done.value))}")
    return Exit.DONE


@policies.command
def history(
    key: Annotated[str | None, Parameter(help="Only changes of this policy.")] = None,
    *,
    limit: Annotated[int, Parameter(help="How many at most.")] = 200,
    tenant: Tenant = None,
    output: Format = "text",
) -> int:
    """List changes, newest first: who, why, before and after; changes that were refused too.

    For example:

        landed policies history tool:refund
    """
    require("--limit", 1 <= limit <= LIMIT_MAX, f"must be from 1 to {LIMIT_MAX}")
    from landed_services.people.times import utc
    from landed_services.queries.policies import policy_history

    with desk(tenant) as at:
        found = policy_history(at.connection, at.tenant_id, key=key, limit=limit)
    rows = [
        (
            utc(one.at_ms),
            one.key,
            str(one.version) if one.accepted else f"refused ({one.reason})",
            one.who,
            _shown(one.old),
            _shown(one.new),
            one.why,
        )
        for one in found
    ]
    columns = ("time", "policy", "version", "who", "before", "after", "why")
    print_values(found, output, columns=columns, rows=rows, empty="No policy was ever changed.")
    return Exit.DONE


def _shown(value: Any) -> str:
    return "none" if value is None else msgspec.json.encode(value).decode()
