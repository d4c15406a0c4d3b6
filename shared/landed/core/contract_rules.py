"""The rules that a contract must keep to be taken at all: each problem names the field and the rule it breaks.

What is allowed and yet weak is told by `contract_weak`; rules about a tool's function stand where that is known, in the SDK.

Source: docs/semantics.md §4.
"""

import re
import string
import unicodedata
from functools import lru_cache
from math import isfinite
from typing import Final

from landed.core.contract import Contract, Problem, readable_contract
from landed.core.vocabulary import ActionClass, OnAbsent, Reversible

IDENTITY: Final = ("tenant_id", "operation_id", "group_id")
"""What `ownership` may name."""
_SECONDS: Final = ("lease", "longest_processing", "safe_window", "first_check_after", "max_interval", "deadline")
_FORMATTER: Final = string.Formatter()


def problems(contract: Contract) -> tuple[Problem, ...]:
    """Everything that is wrong with *contract*, each naming field and rule; empty when it is valid."""
    return tuple(
        _names(contract) + _bounds(contract) + _request(contract) + _answer(contract) + _recovery(contract) + _webhook(contract)
    )


@lru_cache(maxsize=1024)
def broken_rule(text: str) -> str | None:
    """The first rule that the contract on the log breaks; None where it breaks none, or cannot be read.

    Asked when a claim is decided, never by the fold: rules may change with a release, what was folded may not.
    """
    contract = readable_contract(text)
    found = () if contract is None else problems(contract)
    return str(found[0]) if found else None


def names_in(template: str) -> tuple[str, ...]:
    """What *template* names, such as `order_id` in `refund:{order_id}`.

    Raises:
        ValueError: it is no template.
    """
    return tuple(name for _, name, _, _ in _FORMATTER.parse(template) if name is not None)


def _names(contract: Contract) -> list[Problem]:
    found = []
    if not contract.tool.strip():
        found.append(Problem("tool", "must not be empty"))
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in contract.tool):
        found.append(Problem("tool", "must not contain control characters or lone surrogates"))
    if not contract.effect.kind.strip():
        found.append(Problem("effect.kind", "must not be empty"))
    return found


def _bounds(contract: Contract) -> list[Problem]:
    found = []
    for name in (*_SECONDS, "backoff"):
        if not isfinite(getattr(contract, name)):
            found.append(Problem(name, "must be a finite number (seconds)"))
    for name in ("lease", "backoff", "max_interval", "deadline"):
        if not getattr(contract, name) > 0:
            found.append(Problem(name, "must be greater than 0 (seconds)"))
    for name in ("longest_processing", "safe_window", "first_check_after"):
        if not getattr(contract, name) >= 0:
            found.append(Problem(name, "must not be negative (seconds)"))
    for name in ("max_attempts", "max_checks"):
        if getattr(contract, name) < 1:
            found.append(Problem(name, "must be at least 1"))
    if contract.backoff < 1:
        found.append(Problem("backoff", "is a factor of at least 1"))
    return found + _nested_bounds(contract)


def _nested_bounds(contract: Contract) -> list[Problem]:
    key, probe, webhook = contract.operation_key, contract.outcome_probe, contract.webhook
    not_negative = [("settles_after", contract.settles_after)]
    above_zero = [("operation_key.lifetime", key.lifetime if key else None)]
    not_negative.append(("outcome_probe.lag", probe.lag if probe else None))
    not_negative.append(("webhook.keep_unmatched", webhook.keep_unmatched if webhook else None))
    for number, one in enumerate(contract.compensation):
        above_zero.append((f"compensation[{number}].expires_after", one.expires_after))
        not_negative.append((f"compensation[{number}].requires.wait", one.requires.wait if one.requires else None))
    found = []
    for field, value in not_negative:
        if value is not None and not (value >= 0 and isfinite(value)):
            found.append(Problem(field, "must be a finite number, not negative (seconds)"))
    for field, value in above_zero:
        if value is not None and not (value > 0 and isfinite(value)):
            found.append(Problem(field, "must be greater than 0 and finite (seconds)"))
    return found


def _request(contract: Contract) -> list[Problem]:
    found = []
    hashed_out = {*contract.volatile_args, *contract.free_text_args}
    for name in contract.identity_args:
        if name in hashed_out:
            found.append(Problem("identity_args", f"{name!r} cannot be identity-bearing and left out of the hash"))
    for name in contract.personal:
        if name in contract.stored_args:
            found.append(Problem("stored_args", f"{name!r} is personal: stored only under a tenant's data key"))
    key = contract.operation_key
    if key is not None and [key.argument, key.header, key.reference].count(None) != 2:
        found.append(Problem("operation_key", "names exactly one of argument, header, reference"))
    templates = [("business_key", contract.business_key)] if contract.business_key is not None else []
    templates += [("resources", text) for text in contract.resources] + [("implies", text) for text in contract.implies]
    for field, text in templates:
        try:
            names = names_in(text)
        except ValueError as error:
            found.append(Problem(field, f"{text!r} is not a template: {error}"))
            continue
        if field == "business_key" and not names:
            found.append(Problem(field, f"{text!r} names no argument: all calls would be one operation"))
        for name in names:
            if field == "business_key" and name in hashed_out:
                found.append(Problem(field, f"{text!r} names {name!r}, left out of the hash: an intent is not told by it"))
    return found


def _answer(contract: Contract) -> list[Problem]:
    found = []
    if contract.reference_pattern is not None:
        try:
            re.compile(contract.reference_pattern)
        except re.error as error:
            found.append(Problem("reference_pattern", f"is not a regular expression: {error}"))
    for field, text in contract.ownership.items():
        try:
            unknown = [name for name in names_in(text) if name not in IDENTITY]
        except ValueError as error:
            found.append(Problem(f"ownership.{field}", f"{text!r} is not a template: {error}"))
            continue
        for name in unknown:
            found.append(Problem(f"ownership.{field}", f"{text!r} names {name!r}; known are {', '.join(IDENTITY)}"))
    for code in contract.already_exists_errors:
        if code in contract.no_effect_errors:
            found.append(Problem("already_exists_errors", f"{code!r} proves that nothing happened, says `no_effect_errors`"))
    return found


def _recovery(contract: Contract) -> list[Problem]:
    found = []
    probe = contract.outcome_probe
    if probe is not None and probe.lookup_key not in {"operation_id", "reference", *contract.stored_args}:
        found.append(Problem("outcome_probe.lookup_key", f"{probe.lookup_key!r} is not among stored_args"))
    if not contract.minimum_evidence:
        found.append(Problem("minimum_evidence", "must name at least one field: a similar record is not proof"))
    if contract.on_absent is not OnAbsent.ESCALATE and probe is None and not contract.read_only:
        found.append(Problem("on_absent", "a retry after absence needs an outcome_probe that can prove absence"))
    if contract.action_class is ActionClass.DEDUPE_SUPPORTED and not contract.key_honoured:
        found.append(Problem("action_class", "dedupe_supported needs an operation_key that the provider honours"))
    if contract.action_class is ActionClass.IRREVERSIBLE and contract.effect.reversible is Reversible.YES:
        found.append(Problem("effect.reversible", "an irreversible action cannot be reversible"))
    return found + _inverses(contract)


def _inverses(contract: Contract) -> list[Problem]:
    found = []
    if contract.compensation and contract.read_only:
        found.append(Problem("compensation", "a read has no effect to undo"))
    if contract.compensation and contract.no_inverse:
        found.append(Problem("no_inverse", "is said beside a compensation: one of the two is wrong"))
    if contract.compensation and contract.follow_up is not None:
        found.append(Problem("follow_up", "is for an effect with no inverse, and a compensation is declared"))
    last = len(contract.compensation) - 1
    for number, one in enumerate(contract.compensation):
        at = f"compensation[{number}]"
        if not one.tool.strip() or one.tool == contract.tool:
            found.append(Problem(f"{at}.tool", "names a tool with a contract of its own"))
        if one.tool in {other.tool for other in contract.compensation[:number]}:
            found.append(Problem(f"{at}.tool", f"{one.tool!r} is named twice"))
        if not one.input_from:
            found.append(Problem(f"{at}.input_from", "names at least one source"))
        if not one.safe_when:
            found.append(Problem(f"{at}.safe_when", "names at least one outcome: else it may never run"))
        if one.gone_only_after_own_try and not one.gone_errors:
            found.append(Problem(f"{at}.gone_only_after_own_try", "is about `gone_errors`, and there are none"))
        if number < last and not one.next_on:
            found.append(Problem(f"{at}.next_on", "names no error: the next compensation of the list is never reached"))
        if one.input_from == ("forward_input",):
            for name in one.required_fields:
                if name not in contract.stored_args:
                    found.append(Problem(f"{at}.required_fields", f"{name!r} is not among stored_args"))
    return found


def _webhook(contract: Contract) -> list[Problem]:
    terms = contract.webhook
    if terms is None:
        return []
    found = []
    paths = {name: getattr(terms, name) for name in ("match", "reference", "status", "receipt", "order_by", "dedupe_by")}
    for name, path in paths.items():
        if path is not None and any(not part for part in path.split(".")) and (name, path) != ("receipt", ""):
            found.append(Problem(f"webhook.{name}", "must be names with dots between, from the top of the message"))
    words = [*terms.confirmed_when, *terms.rejected_when, *terms.reverted_when]
    if words and terms.status is None:
        found.append(
            Problem("webhook.status", "must say where the words stand that confirmed_when, rejected_when and reverted_when name")
        )
    if len(set(words)) < len(words):
        found.append(Problem("webhook", "a word stands in one of confirmed_when, rejected_when and reverted_when, and once"))
    return found
