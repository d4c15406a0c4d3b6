"""What each field of a contract means, in one place: the JSON Schema, the documentation and the check print it from here.

Keys are fields of `Contract`, or `field.part` for what is nested; durations are seconds. A test compares them with the fields.
"""

from typing import Final

MEANING: Final[dict[str, str]] = {
    # Effect
    "tool": "name of the tool",
    "effect": "what the tool does",
    "effect.kind": "effect type, `resource.verb`: what ceilings and reports count",
    "effect.resource": "what it is done to",
    "effect.reversible": "whether it can be taken back: `true`, `false`, or `conditional` (under conditions that the "
    "inverse names)",
    "action_class": "what may be done to a call again or backwards: `safe_replay` (the same request may be sent again), "
    "`dedupe_supported` (under its key), `compensatable` (only its inverse), `irreversible` (nothing)",
    "stakes": "what is at stake: `money`, `deletion`, `permission`, `communication` (need approval, or a person on "
    "conflict) or `none`",
    "read_only": "no effect: no claim, may be repeated; a failed read is an error, never an empty result",
    "dry_run": "argument that asks for a dry run; give a dry run an operation of its own",
    # Request
    "identity_args": "arguments that tell one intent from another",
    "volatile_args": "arguments left out of the request hash: time stamps, tokens",
    "free_text_args": "arguments left out of the request hash: wording",
    "business_key": "template over identity-bearing arguments that names the operation, such as `refund:{order_id}`",
    "operation_key": "where the provider takes the operation id; the SDK fills an `argument`, and it is left out of the hash",
    "operation_key.argument": "argument of the function that is filled with the operation id",
    "operation_key.header": "header of the request that carries it (the function sets it)",
    "operation_key.reference": "field of the provider's object that keeps it (the function sets it)",
    "operation_key.honoured": "`false`: the provider stores it, and a second call under it has a second effect",
    "operation_key.lifetime": "how long the provider remembers it, from the first dispatch; left out: for ever",
    "stored_args": "arguments kept on the log; all others leave a digest at most. A look-up, a replay and an inverse "
    "have no others",
    "personal": "arguments that are never stored in the clear; without a data key of the tenant nothing that needs "
    "them is repeated",
    "equal_calls": "how equal calls under different ids are taken: `fold` (one intent) or `distinct` (each its own); "
    "left out: the "
    "second waits for the first (`open_intent`)",
    "resources": "templates of what the call needs alone: one writer at a time",
    "implies": "templates of further resources that it makes, held with `resources`",
    "unit": "`call`, or `item`: one operation for each item of a request, for callers that claim each",
    "supersedes": "a later value makes an earlier one meaningless: a correction does not wait for the doubt about the old one",
    # Answer
    "reference_field": "path (dots) of the provider's reference inside the answer",
    "receipt_fields": "top-level fields of the answer that are kept, at most 16 KiB each",
    "success_when": "fields of the answer and the text that they must have",
    "verify": "read right after a call that must see the effect",
    "verify.tool": "name of that read",
    "no_effect_errors": "codes (else statuses, or class names) of answers that prove that nothing happened",
    "already_exists_errors": "codes that say that the object is there; they prove nothing about whose it is",
    "settles_after": "when an accepted effect becomes final",
    "reference_pattern": "regular expression that a reference matches as a whole",
    "ownership": "fields of the answer (dots) and the text that they must have, a template over `tenant_id`, `operation_id` and "
    "`group_id`; another's object leaves the outcome unknown",
    "lease": "how long a grant is good without renewal; renewed while the call runs",
    "longest_processing": "longest time that the provider may work on a request; bounds the renewals (0: `deadline` does)",
    "max_attempts": "attempts in all",
    "retry_rejected": "a proven failure may be tried again, by the caller",
    "unique_field": "argument that the provider keeps unique",
    # Reconciliation
    "outcome_probe": "how the effect is looked up when the answer was lost",
    "outcome_probe.tool": "name of the look-up, a read",
    "outcome_probe.lookup_key": "what it goes by: `operation_id`, `reference`, or a stored argument",
    "outcome_probe.read_kind": "where it reads: `authoritative`, or `replica`, `cache`, `search_index`, which never "
    "prove absence",
    "outcome_probe.lag": "how late it may show an effect, as the provider documents",
    "first_check_after": "first look-up after the doubt began",
    "backoff": "factor between look-ups",
    "max_interval": "longest time between look-ups",
    "safe_window": "how long 'not there' proves nothing after an attempt ended; never shorter than `longest_processing`",
    "max_checks": "look-ups in all",
    "deadline": "when an operation in doubt goes to a person",
    "minimum_evidence": "what a find must match on to be ours: `operation_id`, or an immutable business id with more",
    "removed_when": "statuses of an effect that was removed",
    "on_absent": "after proven absence: `retry`, `offer_retry` (the caller may take it) or `escalate`",
    "queue": "where its review tasks go",
    "webhook": "how news from the provider finds its operation",
    "webhook.match": "path (dots) of the operation id that the message hands back, or of the provider's reference",
    "webhook.reference": "path of the provider's reference, where `match` finds an operation id",
    "webhook.status": "path of the word that says what happened",
    "webhook.confirmed_when": "words that say that the effect exists",
    "webhook.rejected_when": "words that say that it does not",
    "webhook.reverted_when": "words after which a confirmed effect is gone though nobody undid it",
    "webhook.receipt": "path of the object whose `receipt_fields` are kept",
    "webhook.order_by": "path of the provider's own time or version: of two messages the newest counts",
    "webhook.dedupe_by": "path of what makes two deliveries the same news",
    "webhook.keep_unmatched": "how long news that matches nothing waits for its operation",
    # Compensation
    "compensation": "inverses in order, the next only after an error named in `next_on`; none: no inverse",
    "compensation.tool": "the inverse, a tool with a contract of its own",
    "compensation.input_from": "where its input is taken from: `forward_output` (the receipt), `forward_input` "
    "(stored arguments), "
    "`reconciliation` (what a look-up found); several in order",
    "compensation.required_fields": "fields without which it is not tried",
    "compensation.safe_when": "outcomes of the forward call under which it may run: `succeeded`, `failed`, `unknown`",
    "compensation.authorization_action": "action that is asked of the policy when it runs; left out: its effect kind",
    "compensation.expires_after": "how long after the forward effect it works",
    "compensation.parallel_safe": "may run beside other inverses",
    "compensation.automatic": "the compensator may run it where the tenant's allowlist says so too",
    "compensation.gone_errors": "codes that say that the effect is gone already",
    "compensation.gone_only_after_own_try": "those codes count only after an own unanswered try",
    "compensation.requires": "what must hold right before it",
    "compensation.requires.read": "name of the read",
    "compensation.requires.condition": "what it must show, as the read words it",
    "compensation.requires.wait": "how long it waits for that before a person is asked",
    "compensation.next_on": "codes that lead to the next inverse of the list",
    "no_inverse": "said outright: nothing takes the effect back",
    "follow_up": "with no inverse: the correction, ticket or stop that is offered to the reviewer",
}

PARTS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("effect", ("tool", "effect", "action_class", "stakes", "read_only", "dry_run")),
    (
        "request",
        (
            "identity_args",
            "volatile_args",
            "free_text_args",
            "business_key",
            "operation_key",
            "stored_args",
            "personal",
            "equal_calls",
            "resources",
            "implies",
            "unit",
            "supersedes",
        ),
    ),
    (
        "answer",
        (
            "reference_field",
            "receipt_fields",
            "success_when",
            "verify",
            "no_effect_errors",
            "already_exists_errors",
            "settles_after",
            "reference_pattern",
            "ownership",
            "lease",
            "longest_processing",
            "max_attempts",
            "retry_rejected",
            "unique_field",
        ),
    ),
    (
        "reconciliation",
        (
            "outcome_probe",
            "first_check_after",
            "backoff",
            "max_interval",
            "safe_window",
            "max_checks",
            "deadline",
            "minimum_evidence",
            "removed_when",
            "on_absent",
            "queue",
            "webhook",
        ),
    ),
    ("compensation", ("compensation", "no_inverse", "follow_up")),
)
"""The five parts of §4 and their fields, in order."""
