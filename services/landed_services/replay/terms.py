"""Terms that a log is run under: policies and contracts in place of those that stand on it, and those on it by version. Pure.

A policy that is given holds from the first event on, in place of every version of its key; other keys stay as recorded. A
contract that is given takes the place of the one that came with each intent of its tool.

Source: docs/semantics.md §4, §5, §9.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from landed.core import events as ev
from landed.core.contract import Contract, Problem, contract_json, milliseconds, readable_contract
from landed.core.policy import (
    CEILING,
    COMPENSATION,
    EVERY,
    TOOL,
    Policies,
    PolicyError,
    PolicyValue,
    ToolRules,
    check_key,
    parsed,
)
from landed.core.state import COMPENSATE, POLICY_ROUTE, Approval, Route

NEW: Final = 0
"""Number of a policy that is given: recorded ones count from 1."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What is put in place of what stands on the log."""

    policies: Mapping[str, PolicyValue | None] = {}
    """By key; None: no such policy."""
    contracts: Mapping[str, str] = {}
    """Canonical JSON by tool."""

    def contract(self, tool: str) -> Contract | None:
        """The contract that is given for *tool*."""
        text = self.contracts.get(tool)
        return None if text is None else readable_contract(text)

    @property
    def changes_ceilings(self) -> bool:
        return any(key.startswith(CEILING) for key in self.policies)

    def given(self, recorded: Policies) -> Policies:
        """*recorded* with the policies that are given in their place."""
        values = {key: value for key, value in recorded.values.items() if key not in self.policies}
        versions = {key: number for key, number in recorded.versions.items() if key not in self.policies}
        for key, value in self.policies.items():
            if value is not None:
                values[key] = value
                versions[key] = NEW
        return Policies(values=values, versions=versions, unreadable=recorded.unreadable - self.policies.keys())

    def rewritten(self, entry: ev.Entry) -> ev.Entry:
        """*entry* as its writer would have said it under the contracts that are given; itself where they say nothing of it."""
        event = entry.event
        if not isinstance(event, ev.OperationPrepared) or (contract := self.contract(event.tool)) is None:
            return entry
        text = self.contracts[event.tool]
        was = None if event.contract is None else readable_contract(event.contract)
        if was is not None and event.operation_id is not None and event.operation_id.startswith(COMPENSATE):
            # Whoever performs an inverse keeps its arguments on the log, whatever its contract says of them.
            kept = tuple(dict.fromkeys((*contract.stored_args, *was.stored_args)))
            text = contract_json(replace(contract, stored_args=kept))
        claim = event.claim
        if claim is not None:
            claim = replace(claim, lease_ms=lease_under(claim.lease_ms, was, contract))
        said = replace(
            event,
            contract=text,
            contract_digest=hashlib.sha256(text.encode()).hexdigest(),
            effect_type=contract.effect.kind,
            compensation=[one.tool for one in contract.compensation],
            claim=claim,
        )
        return replace(entry, event=said)


def lease_under(lease_ms: int, was: Contract | None, contract: Contract | None) -> int:
    """Lease that a claim asks for under *contract*; as it was where it did not follow the contract that it came with."""
    if was is None or contract is None or lease_ms != milliseconds(was.lease):
        return lease_ms
    return milliseconds(contract.lease)


def terms(policies: Mapping[str, PolicyValue | None], contracts: Iterable[Contract]) -> Terms:
    """*policies* and *contracts* as terms."""
    return Terms(policies=policies, contracts={one.tool: contract_json(one) for one in contracts})


def policies_from(document: object) -> dict[str, PolicyValue | None]:
    """Policies by key from a document such as `{"tool:refund": {"approval": true}, "ceiling:*": null}`.

    Raises:
        PolicyError: lists each key and rule that is broken.
    """
    if not isinstance(document, Mapping) or not document:
        raise PolicyError([Problem("policies", "must be an object: the value of each policy by its key, null for none")])
    found: dict[str, PolicyValue | None] = {}
    problems: list[Problem] = []
    for key, value in document.items():
        try:
            check_key(str(key))
            found[str(key)] = None if value is None else parsed(str(key), msgspec.json.encode(value).decode())
        except PolicyError as error:
            problems += error.problems
        except (TypeError, ValueError) as error:
            problems.append(Problem(str(key), str(error)))
    if problems:
        raise PolicyError(problems)
    return found


# ---- what stands on the log -----------------------------------------------------------------------------------------------


class Book:
    """Every version of every policy that was read so far, so that a decision is judged under those that it names."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str, int], str | None] = {}
        self._newest: dict[str, dict[str, int]] = {}

    def take(self, route: Route) -> None:
        """The policy on *route* has changed."""
        key = route.route.removeprefix(POLICY_ROUTE)
        self._texts[route.tenant_id, key, route.version] = route.policy
        self._newest.setdefault(route.tenant_id, {})[key] = route.version

    @property
    def recorded(self) -> list[str]:
        """Each policy by tenant and key, with its newest version, in words."""
        several = len(self._newest) > 1
        return [
            (f"{tenant_id} " if several else "") + f"{key} version {number}"
            for tenant_id, known in sorted(self._newest.items())
            for key, number in sorted(known.items())
        ]

    def newest(self, tenant_id: str) -> Policies:
        """The policies of *tenant_id* as they stand where reading is."""
        return self._policies(tenant_id, self._newest.get(tenant_id, {}).items())

    def of_tool(self, tenant_id: str, tool: str, version: str | None) -> Policies | None:
        """The policies of *tool* that a decision names by *version*; None where one of them was not read."""
        named = _named(version, (TOOL + EVERY, TOOL + tool))
        return self._policies(tenant_id, named.items()) if self._has(tenant_id, named) else None

    def of_inverses(self, tenant_id: str, version: str | None) -> Policies | None:
        """The policy about inverses that a ruling names by *version*; None where it was not read."""
        named = _named(version, (COMPENSATION,))
        return self._policies(tenant_id, named.items()) if self._has(tenant_id, named) else None

    def _has(self, tenant_id: str, named: Mapping[str, int]) -> bool:
        return all((tenant_id, key, number) in self._texts for key, number in named.items())

    def _policies(self, tenant_id: str, named: Iterable[tuple[str, int]]) -> Policies:
        values: dict[str, PolicyValue] = {}
        versions = dict(named)
        unreadable: set[str] = set()
        for key, number in versions.items():
            text = self._texts.get((tenant_id, key, number))
            try:
                if text is not None:
                    values[key] = _parsed(key, text)
            except PolicyError:
                unreadable.add(key)
        return Policies(values=values, versions=versions, unreadable=frozenset(unreadable))


@lru_cache(maxsize=1024)
def _parsed(key: str, text: str) -> PolicyValue:
    return parsed(key, text)


@lru_cache(maxsize=4096)
def _named(version: str | None, keys: tuple[str, ...]) -> Mapping[str, int]:
    """Numbers of *keys* in a text such as `tool:*@1 tool:refund@3`."""
    found = {}
    for key in keys:
        if version and (match := re.search(rf"(?:^| ){re.escape(key)}@(\d+)(?: |$)", version)) is not None:
            found[key] = int(match[1])
    return found


def rules_given(terms: Terms, recorded: Policies, tool: str, approval: Approval | None) -> ToolRules:
    """What holds for *tool* with the policies that are given.

    A policy that is given never changes, so an *approval* stands under it where the others have not changed since.
    """
    rules = terms.given(recorded).rules(tool)
    keys = (TOOL + EVERY, TOOL + tool)
    if approval is None or not any(key in terms.policies for key in keys):
        return rules
    kept = {key: number for key, number in recorded.versions.items() if key in keys and key not in terms.policies}
    then = {key: number for key, number in _named(approval.policy_version, keys).items() if key not in terms.policies}
    return replace(rules, version=approval.policy_version) if kept == then else rules
