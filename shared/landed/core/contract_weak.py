"""What is allowed in a contract and yet weak, in words: where its author relies on more than a rule can check.

Source: docs/semantics.md §4, §7.
"""

from collections.abc import Collection

import msgspec

from landed.core.contract import Contract
from landed.core.vocabulary import ActionClass, ForwardOutcome, OnAbsent, ReadKind, Reversible

_REPLAYED = frozenset({ActionClass.SAFE_REPLAY, ActionClass.DEDUPE_SUPPORTED})


class Weakness(msgspec.Struct, frozen=True):
    """Where a contract is weak, and what follows from it."""

    field: str
    what: str

    def __str__(self) -> str:
        return f"{self.field}: {self.what}"


def weaknesses(contract: Contract, *, arguments: Collection[str] | None = None, data_key: bool = False) -> tuple[Weakness, ...]:
    """Where *contract* is weak, in the order of its parts; empty for a read.

    Args:
        arguments: of the tool's function, without the operation key; None: not known.
        data_key: whether the tenant has a data key under which personal arguments are stored.
    """
    if contract.read_only:
        return ()
    return (
        *_request(contract, arguments, data_key=data_key),
        *_answer(contract),
        *_look_up(contract),
        *_retry(contract),
        *_inverse(contract),
    )


def at_most_one_effect(contract: Contract) -> str:
    """What it rests on that the effect happens at most once (§7)."""
    if contract.read_only:
        return "a read has no effect"
    if contract.key_honoured:
        key = contract.operation_key
        lifetime = key.lifetime if key else None
        if lifetime is None:
            return "the provider honours the operation id as key for all attempts"
        after = "" if not _retries(contract) else f"; a retry after that: {_without_key(contract)}"
        return f"the provider honours the operation id as key for {lifetime:g} s from the first dispatch{after}"
    if contract.action_class is ActionClass.SAFE_REPLAY:
        return "the author's word that the same request sent again has no second effect (safe_replay)"
    if not _retries(contract):
        return "a single dispatch, ever; one more only when a person allows it after the window has passed"
    return _without_key(contract)


def _without_key(contract: Contract) -> str:
    probe = contract.outcome_probe
    reads = (
        "an authoritative read" if probe is None else f"{probe.tool!r} being an authoritative read (declared: {probe.read_kind})"
    )
    return (
        f"no key, so all of: {reads}; longest_processing ({contract.longest_processing:g} s) being true; the window"
        f" ({contract.quiet_after_ms / 1000:g} s) counted from the lease end; the lease counted from the claim's sending"
    )


def _retries(contract: Contract) -> bool:
    return contract.on_absent is not OnAbsent.ESCALATE


def _repeats_by_itself(contract: Contract) -> bool:
    return contract.action_class in _REPLAYED or contract.on_absent is OnAbsent.RETRY


def _request(contract: Contract, arguments: Collection[str] | None, *, data_key: bool) -> list[Weakness]:
    found = []
    if contract.personal and not data_key and _repeats_by_itself(contract):
        names = ", ".join(map(repr, contract.personal))
        found.append(Weakness("personal", f"{names} cannot be stored without a data key of the tenant: cannot retry by itself"))
    if arguments is not None and _repeats_by_itself(contract):
        missing = [name for name in arguments if name not in contract.stored_args and name not in contract.personal]
        if missing:
            names = ", ".join(map(repr, missing))
            found.append(Weakness("stored_args", f"{names} are not stored: the same request cannot be sent again by itself"))
    return found


def _answer(contract: Contract) -> list[Weakness]:
    if contract.reference_field is None and not contract.success_when and contract.verify is None:
        what = "no reference, no success_when, no verify: any answer that is not empty counts as a success"
        return [Weakness("reference_field", what)]
    return []


def _look_up(contract: Contract) -> list[Weakness]:
    probe, found = contract.outcome_probe, []
    if probe is None:
        return [Weakness("outcome_probe", "no look-up: every call whose answer is lost goes to a person")]
    if probe.lookup_key == "reference":
        what = "no look-up by key: it goes by the provider's reference, which is lost with a lost answer"
        found.append(Weakness("outcome_probe.lookup_key", what))
    elif probe.lookup_key != "operation_id":
        what = f"no look-up by key: it goes by {probe.lookup_key!r}, under which others may have an effect as well"
        found.append(Weakness("outcome_probe.lookup_key", what))
    if probe.read_kind is not ReadKind.AUTHORITATIVE:
        what = f"a read of a {probe.read_kind.replace('_', ' ')} never proves absence: what is not found goes to a person"
        found.append(Weakness("outcome_probe.read_kind", what))
    if "operation_id" not in contract.minimum_evidence:
        names = ", ".join(contract.minimum_evidence)
        found.append(Weakness("minimum_evidence", f"without the operation id ({names}): another's effect may be taken for ours"))
    window = contract.quiet_after_ms / 1000
    if window < probe.lag:
        what = f"{window:g} s is shorter than the provider's documented lag of {probe.lag:g} s: what is there may count as absent"
        found.append(Weakness("safe_window", what))
    if contract.deadline < window:
        what = f"{contract.deadline:g} s end before the safe window of {window:g} s: absence is never proven"
        found.append(Weakness("deadline", what))
    return found


def _retry(contract: Contract) -> list[Weakness]:
    found = []
    if _retries(contract) and not contract.key_honoured and contract.action_class is not ActionClass.SAFE_REPLAY:
        found.append(Weakness("operation_key", f"at most one effect rests on {at_most_one_effect(contract)}"))
    if _retries(contract) and contract.max_attempts == 1:
        found.append(Weakness("max_attempts", f"1 leaves no attempt for on_absent: {contract.on_absent}"))
    if contract.retry_rejected and contract.max_attempts == 1:
        found.append(Weakness("max_attempts", "1 leaves no attempt for retry_rejected"))
    key = contract.operation_key
    if contract.action_class is ActionClass.DEDUPE_SUPPORTED and key is not None and key.lifetime is not None:
        needed = contract.lease + contract.longest_processing
        if key.lifetime < needed:
            what = f"{key.lifetime:g} s end before one attempt does ({needed:g} s): nothing is ever sent again under it"
            found.append(Weakness("operation_key.lifetime", what))
    return found


def _inverse(contract: Contract) -> list[Weakness]:
    found = []
    reversible = contract.effect.reversible is not Reversible.NO
    if reversible and contract.no_inverse:
        found.append(Weakness("no_inverse", f"is said of an effect that is reversible: {contract.effect.reversible}"))
    elif reversible and not contract.compensation:
        what = f"{contract.effect.reversible}, and no inverse is declared: undoing it is left to people"
        found.append(Weakness("effect.reversible", what))
    for number, one in enumerate(contract.compensation):
        doubtful = ForwardOutcome.UNKNOWN in one.safe_when and one.input_from == ("forward_output",)
        if doubtful and one.required_fields:
            what = "forward_output alone, and an unknown outcome has none: it is skipped unless a look-up finds the effect first"
            found.append(Weakness(f"compensation[{number}].input_from", what))
        missing = [name for name in one.required_fields if name not in contract.receipt_fields]
        if one.input_from == ("forward_output",) and missing:
            names = ", ".join(map(repr, missing))
            what = f"{names}: not among receipt_fields, and of the answer nothing else is kept"
            found.append(Weakness(f"compensation[{number}].required_fields", what))
    return found
