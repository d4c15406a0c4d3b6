"""The contract that a case declares, in the words of the norm. One pure translation, for every case alike.

Source: the head of a file of cases ("in the norm's words"); docs/semantics.md §4.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from landed.core.contract import Compensation, Contract, Effect, OperationKey, Probe, Requires, Verify, Webhook
from landed.core.vocabulary import ActionClass, EqualCalls, ForwardOutcome, OnAbsent, Reversible

OWN_ARGUMENT: Final = "call"
"""Argument of a call for which the case gives none: it has its own ones."""
UNDOES: Final = "undoes"
"""Argument of an inverse that needs no other: the operation that it undoes."""
REFERENCE: Final = "ref"
STATUS: Final = "status"
_EVIDENCE: Final = {
    "by_key": "key",
    "by_id": "id",
    "by_reference": "reference",
    "by_marker": "marker",
    "by_tag": "tag",
    "by_search": "reference",
}
_LEASE_S: Final = 10.0
_LEAST_S: Final = 0.001
"""Stands for zero where a contract takes only more than that."""
_KEPT_S: Final = 259_200.0
_NO_BOUND_S: Final = 1e9
_ATTEMPTS: Final = 10
"""Where a case declares no bound: more than the ticks of a story use up."""
_PROBES: Final = 100


def minimum_evidence(declared: Mapping[str, Any]) -> tuple[str, ...]:
    """What a record must match to be ours: as declared, else what the lookup goes by."""
    named = declared.get("evidence")
    return tuple(named) if named else (_EVIDENCE.get(declared.get("lookup", ""), "id"),)


def renews(declared: Mapping[str, Any]) -> bool:
    """Whether the lease is renewed while the worker lives: a declared one is not."""
    return "lease_s" not in declared


def contract_of(
    tool: str,
    all_declared: Mapping[str, Mapping[str, Any]],
    *,
    arguments: Iterable[str] = (),
    answer_fields: Iterable[str] = (),
    news: Iterable[str] = (),
) -> Contract:
    """The contract of *tool*.

    Args:
        all_declared: contracts of the case by tool; a tool that has none declared nothing.
        arguments: names of the arguments that calls of the tool bring: what an author would allow on the log.
        answer_fields: fields of its answers that are kept as the receipt.
        news: words by which the provider tells of it, see `word_of_news`.
    """
    declared, arguments = all_declared.get(tool, {}), frozenset(arguments)
    probe, lookup = declared.get("probe"), declared.get("lookup", "none")
    looked_up = probe is not None and lookup != "none"
    volatile = tuple(declared.get("volatile_args", ()))
    free_text = tuple(declared.get("free_text_args", ()))
    key_argument = declared.get("key_argument")
    hashed_out = {*volatile, *free_text, key_argument}
    longest_s = float(declared.get("max_in_flight_s", 0.0))
    undo = declared.get("undo", ())
    return Contract(
        tool=tool,
        effect=Effect(kind=tool, reversible=Reversible.YES if undo and not declared.get("irreversible") else Reversible.NO),
        action_class=_action_class(declared),
        read_only=declared.get("read_only", False),
        identity_args=tuple(declared.get("identity_args", ())),
        volatile_args=volatile,
        free_text_args=free_text,
        operation_key=_key(declared),
        stored_args=tuple(sorted(name for name in {*arguments, OWN_ARGUMENT} if name not in hashed_out)),
        equal_calls=EqualCalls.FOLD if declared.get("same_message_duplicates") == "fold" else None,
        resources=tuple(_template(name, arguments) for name in declared.get("resource_lock", ())),
        implies=tuple(_template(name, arguments) for name in declared.get("implies", ())),
        unit=declared.get("unit", "call"),
        supersedes=declared.get("supersedes", False),
        reference_field=REFERENCE,
        receipt_fields=tuple(sorted({REFERENCE, STATUS, *answer_fields})),
        success_when={name: text_of(value) for name, value in declared.get("success_when", {}).items()},
        verify=Verify(tool=declared["verify"]) if "verify" in declared else None,
        no_effect_errors=tuple(declared.get("no_effect_errors", ())),
        already_exists_errors=tuple(
            code for code in declared.get("exists_errors", ()) if code not in declared.get("no_effect_errors", ())
        ),
        settles_after=_seconds(declared, "settles_after_s"),
        lease=float(declared.get("lease_s", _LEASE_S)),
        longest_processing=longest_s,
        max_attempts=declared.get("max_attempts", 1 if declared.get("irreversible") else _ATTEMPTS),
        retry_rejected=declared.get("retry_rejected", False),
        unique_field=declared.get("unique_field"),
        outcome_probe=Probe(tool=probe) if looked_up and probe is not None else None,
        safe_window=float(declared.get("absence_window_s", longest_s)),
        max_checks=declared.get("max_probes", _PROBES),
        deadline=max(_LEAST_S, float(declared.get("deadline_s", _NO_BOUND_S))),
        minimum_evidence=minimum_evidence(declared),
        removed_when=tuple(declared.get("removed_when", ())),
        on_absent=_on_absent(declared) if looked_up else OnAbsent.ESCALATE,
        webhook=_webhook(declared, sorted(set(news))),
        compensation=() if declared.get("read_only") else _compensations(declared, all_declared),
    )


def _template(name: str, arguments: frozenset[str]) -> str:
    """A resource as a template over arguments: an argument's name stands for what the argument names."""
    return f"{name}:{{{name}}}" if name in arguments else name


def _keyed(declared: Mapping[str, Any]) -> bool:
    return str(declared.get("key", "none")) != "none"


def _action_class(declared: Mapping[str, Any]) -> ActionClass:
    if declared.get("irreversible"):
        return ActionClass.IRREVERSIBLE
    match declared.get("replay_safe"):
        case True:
            return ActionClass.SAFE_REPLAY
        case None if _keyed(declared):
            return ActionClass.DEDUPE_SUPPORTED
        case _:
            return ActionClass.COMPENSATABLE


def _on_absent(declared: Mapping[str, Any]) -> OnAbsent:
    if declared.get("irreversible"):
        return OnAbsent.ESCALATE
    match declared.get("replay_safe"):
        case True:
            return OnAbsent.RETRY
        case False:
            return OnAbsent.ESCALATE
        case _:
            return OnAbsent.RETRY if _keyed(declared) else OnAbsent.OFFER_RETRY


def _key(declared: Mapping[str, Any]) -> OperationKey | None:
    if not _keyed(declared):
        return None
    lifetime, argument = _seconds(declared, "key_ttl_s"), declared.get("key_argument")
    lifetime = None if lifetime is None else max(_LEAST_S, lifetime)
    if argument is not None:
        return OperationKey(argument=argument, lifetime=lifetime)
    if declared["key"] == "client_id":
        return OperationKey(reference="id", lifetime=lifetime)
    return OperationKey(header="Idempotency-Key", lifetime=lifetime)


def _seconds(declared: Mapping[str, Any], name: str) -> float | None:
    return float(declared[name]) if name in declared else None


def word_of_news(says: str, status: str | None) -> str:
    """The word that a notification brings: what it says, and the status by which it says so."""
    return says if status is None else f"{says}:{status}"


def _webhook(declared: Mapping[str, Any], words: list[str]) -> Webhook | None:
    said = declared.get("webhook")
    if said is None and not words:
        return None
    kept_s = (said or {}).get("park_unmatched_s")
    return Webhook(
        match="operation_id",
        reference=REFERENCE,
        status="says",
        confirmed_when=tuple(word for word in words if word.startswith("confirmed")),
        rejected_when=tuple(word for word in words if word.startswith("rejected")),
        order_by=(said or {}).get("order_by"),
        dedupe_by=(said or {}).get("dedupe_by"),
        keep_unmatched=_KEPT_S if kept_s is None else float(kept_s),
    )


def _compensations(declared: Mapping[str, Any], all_declared: Mapping[str, Mapping[str, Any]]) -> tuple[Compensation, ...]:
    """The undos in order; the next one follows the errors that are named, else those that prove that the last did nothing."""
    undo = declared.get("undo", ())
    found: list[Compensation] = []
    for tool in [undo] if isinstance(undo, str) else undo:
        found.append(_compensation(declared, tool, all_declared))
        if not found[-1].next_on:
            break  # nothing leads on
    return tuple(found)


def _compensation(declared: Mapping[str, Any], tool: str, all_declared: Mapping[str, Mapping[str, Any]]) -> Compensation:
    inverse = all_declared.get(tool, {})
    requires = declared.get("undo_requires")
    return Compensation(
        tool=tool,
        safe_when=tuple(ForwardOutcome(outcome) for outcome in declared.get("undo_when", ("succeeded",))),
        automatic=not inverse.get("irreversible", False),
        gone_errors=tuple(inverse.get("gone_errors", ())),
        gone_only_after_own_try=inverse.get("gone_only_after_own_try", False),
        next_on=tuple(declared.get("undo_next_on", inverse.get("no_effect_errors", ()))),
        requires=None
        if requires is None
        else Requires(read=requires["read"], condition=condition_of(requires), wait=float(declared.get("undo_wait_s", 0.0))),
    )


def contract_of_inverse(
    inverse: Contract, forward: Contract | None, arguments: Iterable[str], declared: Mapping[str, Any]
) -> Contract:
    """The contract of an inverse as it is claimed: its arguments stored, and looked up by the forward look-up, read the other way
    round, where it has none of its own (§7). What may simply be sent again is not looked up.

    Args:
        declared: what the case says of the inverse's tool.
    """
    found = replace(inverse, stored_args=tuple(sorted(arguments)))
    if inverse.outcome_probe is not None or forward is None or forward.outcome_probe is None:
        return found
    if inverse.action_class is ActionClass.SAFE_REPLAY:
        return found
    return replace(
        found,
        outcome_probe=forward.outcome_probe,
        minimum_evidence=forward.minimum_evidence,
        on_absent=_on_absent(declared),
    )


def condition_of(requires: Mapping[str, Any]) -> str:
    """Condition of a read before an undo: a status it must have, or a field that must be as the forward call left it."""
    if "unchanged" in requires:
        return f"unchanged {requires['unchanged']}"
    return f"status {requires['status']}" if "status" in requires else "found"


def text_of(value: Any) -> str:
    """*value* as the text that an answer's field is compared with."""
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case _:
            return str(value)
