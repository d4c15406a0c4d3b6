"""The five parts of a contract as questions, with the answers that it gives: what a reviewer reads before a tool is let loose.

Source: docs/semantics.md §4.
"""

from collections.abc import Iterable

import msgspec

from landed.core.contract import Compensation, Contract
from landed.core.contract_weak import at_most_one_effect
from landed.core.vocabulary import EqualCalls, OnAbsent, Stakes


class Question(msgspec.Struct, frozen=True):
    """One question of a part, and the contract's answer."""

    part: str
    question: str
    answer: str


def questions(contract: Contract) -> tuple[Question, ...]:
    """All questions of the five parts, in their order."""
    parts = {
        "effect": _effect(contract),
        "request": _request(contract),
        "answer": _answer(contract),
        "reconciliation": _reconciliation(contract),
        "compensation": _compensation(contract),
    }
    return tuple(Question(part, asked, said) for part, rows in parts.items() for asked, said in rows)


_Rows = list[tuple[str, str]]


def _effect(contract: Contract) -> _Rows:
    effect = contract.effect
    on = f" on {effect.resource}" if effect.resource else ""
    return [
        ("What does it change?", "nothing: a read" if contract.read_only else f"{effect.kind}{on}"),
        ("Can it be taken back?", str(effect.reversible)),
        ("What may be done to a call again?", str(contract.action_class)),
        ("What is at stake?", "nothing special" if contract.stakes is Stakes.NONE else str(contract.stakes)),
        ("Can it be tried dry?", f"with argument {contract.dry_run!r}" if contract.dry_run else "no"),
    ]


def _request(contract: Contract) -> _Rows:
    key = contract.operation_key
    if key is None:
        passed = "it is not"
    else:
        where = next(
            f"{name} {value!r}"
            for name, value in (("argument", key.argument), ("header", key.header), ("reference", key.reference))
            if value is not None
        )
        lifetime = "for ever" if key.lifetime is None else f"for {key.lifetime:g} s"
        passed = f"as {where}, " + (f"honoured as key {lifetime}" if key.honoured else "stored, not honoured as key")
    equal = {
        None: "the second waits for the first (open_intent)",
        EqualCalls.FOLD: "one intent",
        EqualCalls.DISTINCT: "each its own",
    }
    alone = _listed(contract.resources, "nothing")
    if contract.implies:
        alone += f"; makes {_listed(contract.implies)} as well"
    return [
        ("Who names the operation?", contract.business_key or "its caller: operation id, or group and step"),
        ("How is the operation id passed to the provider?", passed),
        ("What tells one intent from another?", _listed(contract.identity_args, "every argument that is not left out")),
        ("What is left out of the request hash?", _listed((*contract.volatile_args, *contract.free_text_args), "nothing")),
        ("What of the arguments is kept on the log?", _listed(contract.stored_args, "digests only")),
        ("Which arguments are personal?", _listed(contract.personal, "none")),
        ("What are equal calls under different ids?", equal[contract.equal_calls]),
        ("What does it need alone?", alone),
        ("What is one operation?", "one call" if contract.unit == "call" else "one item of a request"),
        (
            "May a correction overtake it?",
            "yes: a later value supersedes it" if contract.supersedes else "not while it is in doubt",
        ),
    ]


def _answer(contract: Contract) -> _Rows:
    reference = contract.reference_field or "none is read"
    if contract.reference_pattern:
        reference += f", of the form {contract.reference_pattern}"
    success = [f"{name} = {value}" for name, value in contract.success_when.items()]
    success += [f"reference in {contract.reference_field}"] if contract.reference_field else []
    success += [f"seen by {contract.verify.tool}"] if contract.verify else []
    owned = [f"{name} = {value}" for name, value in contract.ownership.items()]
    processing = f"{contract.longest_processing:g} s" if contract.longest_processing else "not declared"
    return [
        ("What proves that it happened?", _listed(success, "any answer that is not empty")),
        ("What proves that nothing happened?", _listed(contract.no_effect_errors, "no answer does")),
        ("Which is its reference?", reference),
        ("What proves that the object is ours?", _listed(owned, "nothing is compared")),
        ("What says that it is there already?", _listed(contract.already_exists_errors, "no answer does")),
        (
            "When is an accepted effect final?",
            "at once" if contract.settles_after is None else f"after {contract.settles_after:g} s",
        ),
        ("How long may a call take?", f"lease {contract.lease:g} s, renewed; longest processing {processing}"),
        (
            "How often may it be tried?",
            f"{contract.max_attempts} in all" + ("; again after a proven failure" if contract.retry_rejected else ""),
        ),
        ("Which argument does the provider keep unique?", contract.unique_field or "none"),
    ]


def _reconciliation(contract: Contract) -> _Rows:
    probe = contract.outcome_probe
    absent = {
        OnAbsent.RETRY: "it is sent again under the same id",
        OnAbsent.OFFER_RETRY: "a retry is offered to the caller",
        OnAbsent.ESCALATE: "a person decides",
    }
    look = "nothing looks" if probe is None else f"{probe.tool} by {probe.lookup_key}, a read of kind {probe.read_kind}"
    rhythm = (
        f"after {contract.first_check_after:g} s, then times {contract.backoff:g} up to every {contract.max_interval:g} s;"
        f" {contract.max_checks} looks within {contract.deadline:g} s, then queue {contract.queue!r}"
    )
    window = f"{contract.quiet_after_ms / 1000:g} s after the last attempt ended"
    if probe is not None and probe.lag:
        window += f" (documented lag {probe.lag:g} s)"
    news = contract.webhook
    return [
        ("How is it looked up when the answer was lost?", look),
        ("What must a find match on to be ours?", _listed(contract.minimum_evidence)),
        ("How late is 'not there' believed?", window),
        ("When and how often is it looked up?", rhythm if probe else f"never: queue {contract.queue!r}"),
        ("What follows proven absence?", absent[contract.on_absent]),
        ("Which statuses say that it was removed?", _listed(contract.removed_when, "none")),
        ("Does the provider send news?", "no" if news is None else f"matched by {news.match}"),
        ("What does 'at most one effect' rest on?", at_most_one_effect(contract)),
    ]


def _compensation(contract: Contract) -> _Rows:
    if not contract.compensation:
        said = "nothing does, says the contract" if contract.no_inverse else "no inverse is declared"
        return [("What undoes it?", said), ("What is offered instead?", contract.follow_up or "nothing")]
    rows = []
    for number, one in enumerate(contract.compensation):
        rows.append(("What undoes it?" if number == 0 else "And then?", _inverse(one)))
        rows.append(("When is that safe?", "after outcome " + _listed(one.safe_when) + _conditions(one)))
        rows.append(
            ("Who starts it?", "the compensator, where the tenant allows it" if one.automatic else "the caller or a person")
        )
    return rows


def _inverse(one: Compensation) -> str:
    needs = f", needs {_listed(one.required_fields)}" if one.required_fields else ""
    return f"{one.tool}, input from {_listed(one.input_from)}{needs}"


def _conditions(one: Compensation) -> str:
    text = "" if one.expires_after is None else f", within {one.expires_after:g} s"
    if one.requires is not None:
        text += f", while {one.requires.read} shows {one.requires.condition}"
    if one.gone_errors:
        text += f"; gone already: {_listed(one.gone_errors)}"
    return text + (f"; the next after {_listed(one.next_on)}" if one.next_on else "")


def _listed(names: Iterable[str], none: str = "none") -> str:
    return ", ".join(names) or none
