"""An intent to perform one operation: who it is, what will be sent, and the event that puts it on the log with its claim."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from landed.core.contract import Contract, Problem, contract_json
from landed.core.events import Claim, DispatchRequested, OperationPrepared
from landed.core.identity import (
    RequestError,
    argument_digests,
    check_id,
    rendered,
    request_hash,
    route_of,
    stored_arguments,
)
from landed.core.state import COMPENSATE
from landed.sdk.errors import ContractError
from landed.sdk.tools import Tool
from landed.wire.errors import EncodeError
from landed.wire.ids import with_event_id

STORED_BYTES_MAX: Final = 65_536


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants performed, once. See `intent_of` for the rules."""

    contract: Contract
    arguments: dict[str, Any]
    """As they will be sent, defaults filled in, without the operation key."""
    operation_id: str
    group_id: str | None = None
    step: str | None = None
    depends_on: tuple[str, ...] | None = None
    """Operations of the group; None: every step confirmed before this one was claimed."""
    replaces: str | None = None
    """Operation that this one corrects."""
    approval_id: str | None = None
    retry: bool = False
    """Takes a retry that the ledger offered after proven absence."""
    wait_s: float | None = None
    """Longest wait for the verdict, in seconds; None: as the ledger is set."""
    without_contract: bool = False
    """Nobody wrote `contract`, and none is put on the log."""
    replay_reason: str | None = None
    """Why the reconciler sends the request of an operation on record again; None: it is nobody's replay."""

    @property
    def route(self) -> str:
        return route_of(self.operation_id, self.group_id)


def intent_of(
    contract: Contract,
    arguments: dict[str, Any],
    *,
    operation_id: str | None = None,
    group_id: str | None = None,
    step: str | None = None,
    depends_on: tuple[str, ...] | None = None,
    replaces: str | None = None,
    approval_id: str | None = None,
    retry: bool = False,
    wait_s: float | None = None,
) -> Intent:
    """The intent, with the operation named by the caller, else by the contract's `business_key`, else by group and step (§1).

    Raises:
        RequestError: nothing names the operation, or an id or option breaks a rule.
    """
    if operation_id is None:
        operation_id = _name(contract, arguments, group_id, step)
    inverse = isinstance(operation_id, str) and operation_id.startswith(COMPENSATE)
    check_id("operation_id", operation_id, inverse_allowed=inverse)
    if group_id is not None:
        check_id("group_id", group_id)
    for field, name in (("step", step), ("replaces", replaces)):
        if name is not None:
            check_id(field, name)
    for number, name in enumerate(depends_on or ()):
        check_id(f"depends_on[{number}]", name)
    if wait_s is not None and not (isinstance(wait_s, int | float) and 0 < wait_s < 86_400):
        raise RequestError(Problem("wait", "must be greater than 0 and less than 86400 (seconds)"))
    return Intent(
        contract=contract,
        arguments=arguments,
        operation_id=operation_id,
        group_id=group_id,
        step=step,
        depends_on=depends_on,
        replaces=replaces,
        approval_id=approval_id,
        retry=retry,
        wait_s=wait_s,
    )


def intent_for(
    tool: Tool[..., Any],
    arguments: Mapping[str, Any],
    *,
    depends_on: Sequence[str] | None = None,
    uses: Sequence[str] | None = None,
    **options: Any,
) -> Intent:
    """The intent to perform *tool*; see `intent_of`.

    Raises:
        RequestError: an argument, an id or an option breaks a rule.
        ContractError: the contract declares a `verify` and no function is registered for it.
    """
    if not isinstance(tool, Tool):
        raise RequestError(Problem("tool", f"must be a tool made by @effect, got {type(tool).__name__}"))
    if tool.contract.verify is not None and tool.verify_function is None:
        problem = Problem("verify", "is declared and no @verify function is registered")
        raise ContractError(f"contract of {tool.name!r}", [problem])
    for field, value in (("depends_on", depends_on), ("uses", uses)):
        if value is not None and (isinstance(value, str) or not isinstance(value, Collection)):
            raise RequestError(Problem(field, "must be a list of operation ids"))
    for number, name in enumerate(uses or ()):
        check_id(f"uses[{number}]", name)
    # Without a list it depends on every step confirmed before, and whatever has an output to use is one of those.
    named = None if depends_on is None else tuple(dict.fromkeys([*depends_on, *(uses or ())]))
    contract, operation_id = tool.contract, options.get("operation_id")
    if isinstance(operation_id, str) and operation_id.startswith(COMPENSATE):
        contract = contract_of_inverse(contract, tool.argument_names)
    intent = intent_of(contract, tool.bound(arguments), depends_on=named, **options)
    return intent if tool.declared else msgspec.structs.replace(intent, without_contract=True)


def contract_of_inverse(contract: Contract, arguments: Sequence[str]) -> Contract:
    """*contract* as an inverse carries it: it keeps all *arguments* on the log that are not personal.

    Whoever goes on with the inverse sends the same ones, and its authorization sees what it acts on.
    """
    kept = [name for name in arguments if name not in contract.personal]
    return msgspec.structs.replace(contract, stored_args=tuple(dict.fromkeys((*contract.stored_args, *kept))))


def _name(contract: Contract, arguments: dict[str, Any], group_id: str | None, step: str | None) -> str:
    if contract.business_key is not None:
        identity = {name: value for name, value in arguments.items() if name not in contract.volatile_args}
        return rendered(contract.business_key, identity, field="business_key")
    if group_id is not None and step is not None:
        return f"{group_id}:{step}"
    if contract.read_only:
        return f"read:{contract.tool}"  # a read is not recorded, so its name tells nothing apart
    raise RequestError(
        Problem(
            "operation_id", "nothing names the operation: give a step of a group, an operation_id, or declare a business_key"
        ),
    )


def prepared(
    intent: Intent, claim: Claim | None, *, tenant_id: str, actor: str, digest_key: bytes | None, hashed: str
) -> OperationPrepared:
    """The event that carries *intent* and its claim, in one record; without a claim it only puts the intent on the log.

    Raises:
        RequestError: arguments are not JSON, a template lacks one, or what would be kept is too large.
    """
    contract, arguments = intent.contract, intent.arguments
    stored = msgspec.json.encode(stored_arguments(contract, arguments), order="deterministic") if contract.stored_args else None
    if stored is not None and len(stored) > STORED_BYTES_MAX:
        raise RequestError(Problem("stored_args", f"must be at most {STORED_BYTES_MAX} bytes together, are {len(stored)}"))
    text = contract_json(contract)
    event = OperationPrepared(
        event_id="",
        tenant_id=tenant_id,
        route=intent.route,
        operation_id=intent.operation_id,
        group_id=intent.group_id,
        actor=actor,
        tool=contract.tool,
        request_hash=hashed,
        argument_digests={} if digest_key is None else argument_digests(contract, arguments, key=digest_key),
        stored_args=None if stored is None else stored.decode(),
        contract=None if intent.without_contract else text,
        contract_digest="" if intent.without_contract else hashlib.sha256(text.encode()).hexdigest(),
        effect_type=contract.effect.kind,
        compensation=[compensation.tool for compensation in contract.compensation],
        depends_on=None if intent.depends_on is None else list(intent.depends_on),
        step=intent.step,
        replaces=intent.replaces,
        resources=[
            rendered(template, arguments, field=field)
            for field, templates in (("resources", contract.resources), ("implies", contract.implies))
            for template in templates
        ],
        dry_run=contract.dry_run is not None and bool(arguments.get(contract.dry_run)),
        claim=claim,
    )
    try:
        return with_event_id(event)
    except EncodeError as error:
        raise RequestError(Problem("operation_prepared", str(error))) from None


def asked_again(intent: Intent, claim: Claim, *, tenant_id: str, actor: str) -> DispatchRequested:
    """The claim of an operation whose intent is on the log already."""
    return with_event_id(
        DispatchRequested(
            event_id="",
            tenant_id=tenant_id,
            route=intent.route,
            operation_id=intent.operation_id,
            group_id=intent.group_id,
            actor=actor,
            claim=claim,
        )
    )


def hash_of(intent: Intent) -> str:
    """Request hash of *intent* as its arguments are now.

    Raises:
        RequestError: an argument is not JSON that every reader understands alike.
    """
    return request_hash(intent.contract, intent.arguments)
