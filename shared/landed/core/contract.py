"""The contract of a tool: what its author declares about effect, request, answer, reconciliation and compensation.

A contract describes; it never authorizes. Durations are seconds (float). The first accepted contract of an operation counts for
good, so it travels on the log inside `operation_prepared`, as canonical JSON.

Source: docs/semantics.md §4.
"""

from functools import lru_cache
from typing import Final, Literal, TypeAlias

import msgspec

from landed.core.vocabulary import ActionClass, EqualCalls, ForwardOutcome, OnAbsent, ReadKind, Reversible, Stakes


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of the parts of a contract: unknown fields are errors, defaults are not written."""


_SECONDS_MAX: Final = 1e11


def milliseconds(seconds: float) -> int:
    """*seconds* of a contract in milliseconds, 0 to 3,000 years: the log may hold any number, and the fold never raises."""
    return round(min(max(seconds, 0.0), _SECONDS_MAX) * 1000)


class Effect(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    kind: str
    """What the tool does, `resource.verb`: the effect type that ceilings and reports count."""
    resource: str = ""
    reversible: Reversible = Reversible.NO


class OperationKey(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where the provider takes the operation id, and for how long it honours it as a key."""

    argument: str | None = None
    header: str | None = None
    reference: str | None = None
    honoured: bool = True
    """False: the provider stores the value, yet a second call under it has a second effect."""
    lifetime: float | None = None
    """Seconds that the provider remembers the key, counted from the first dispatch; None: for ever."""


class Probe(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How the effect is looked up when the answer was lost."""

    tool: str
    lookup_key: str = "operation_id"
    """What the look-up goes by: `operation_id`, `reference`, or a stored argument."""
    read_kind: ReadKind = ReadKind.AUTHORITATIVE
    lag: float = 0.0
    """Seconds until this look-up shows an effect at the latest, as the provider documents it; `safe_window` covers it."""


class Verify(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    tool: str


class Requires(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Read right before an inverse; unmet, the inverse waits up to `wait` seconds."""

    read: str
    condition: str
    wait: float = 0.0


InputFrom: TypeAlias = Literal["forward_output", "forward_input", "reconciliation"]
"""Where an inverse takes its input from: the receipt, the stored arguments, or what a look-up found."""


class Compensation(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    tool: str
    input_from: tuple[InputFrom, ...] = ("forward_output",)
    """In this order: the first source that has every required field counts."""
    required_fields: tuple[str, ...] = ()
    safe_when: tuple[ForwardOutcome, ...] = (ForwardOutcome.SUCCEEDED,)
    authorization_action: str | None = None
    expires_after: float | None = None
    parallel_safe: bool = False
    automatic: bool = False
    gone_errors: tuple[str, ...] = ()
    gone_only_after_own_try: bool = False
    requires: Requires | None = None
    next_on: tuple[str, ...] = ()
    """Errors that lead to the next compensation of the list."""


class Webhook(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a provider's message about the effect is read. Paths (dots) go from the top of the message."""

    match: str
    """Path of the operation id that the message hands back, or of the provider's reference."""
    reference: str | None = None
    """Path of the provider's reference; None: it is what `match` finds, unless that is an operation id."""
    status: str | None = None
    """Path of the word that says what happened; a word that is not among those below is recorded, and nothing follows."""
    confirmed_when: tuple[str, ...] = ()
    rejected_when: tuple[str, ...] = ()
    reverted_when: tuple[str, ...] = ()
    """Words after which a confirmed effect is gone though nobody undid it: a bounced payment, a refund that failed days later."""
    receipt: str | None = None
    """Path of the object whose `receipt_fields` are kept; None: of the message only a digest is."""
    order_by: str | None = None
    """Path of the provider's own time (seconds, milliseconds, ISO 8601) or version: of two messages the newest counts."""
    dedupe_by: str | None = None
    """Path of what makes two deliveries the same news; None: the id that the delivery itself carries."""
    keep_unmatched: float = 259_200.0
    """Seconds for which news that matches no operation, or of which nothing follows yet, is matched again."""


class Contract(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Everything that the ledger knows about a tool. See `contract_rules` for the rules, `contract_form` for files."""

    tool: str
    effect: Effect
    action_class: ActionClass = ActionClass.COMPENSATABLE
    stakes: Stakes = Stakes.NONE
    read_only: bool = False
    dry_run: str | None = None
    """Argument that asks for a dry run."""
    # Request
    identity_args: tuple[str, ...] = ()
    volatile_args: tuple[str, ...] = ()
    free_text_args: tuple[str, ...] = ()
    business_key: str | None = None
    """Template over identity-bearing arguments that names the operation, such as `refund:{order_id}`."""
    operation_key: OperationKey | None = None
    stored_args: tuple[str, ...] = ()
    personal: tuple[str, ...] = ()
    equal_calls: EqualCalls | None = None
    resources: tuple[str, ...] = ()
    implies: tuple[str, ...] = ()
    unit: Literal["call", "item"] = "call"
    supersedes: bool = False
    # Answer
    reference_field: str | None = None
    """Path (dots) of the provider's reference inside the answer."""
    receipt_fields: tuple[str, ...] = ()
    """Top-level fields of the answer that are kept as the receipt; everything else is dropped."""
    success_when: dict[str, str] = {}
    """Fields of the answer and the text they must have; empty: any answer with a valid reference is a success."""
    verify: Verify | None = None
    no_effect_errors: tuple[str, ...] = ()
    already_exists_errors: tuple[str, ...] = ()
    settles_after: float | None = None
    reference_pattern: str | None = None
    ownership: dict[str, str] = {}
    """Fields of the answer (dots) and the text that they must have, a template over `tenant_id`, `operation_id` and `group_id`:
    what belongs to somebody else is no receipt."""
    lease: float = 10.0
    longest_processing: float = 0.0
    max_attempts: int = 1
    retry_rejected: bool = False
    unique_field: str | None = None
    # Reconciliation
    outcome_probe: Probe | None = None
    first_check_after: float = 1.0
    backoff: float = 2.0
    max_interval: float = 300.0
    safe_window: float = 0.0
    max_checks: int = 10
    deadline: float = 86_400.0
    minimum_evidence: tuple[str, ...] = ("operation_id",)
    removed_when: tuple[str, ...] = ()
    on_absent: OnAbsent = OnAbsent.ESCALATE
    queue: str = "default"
    webhook: Webhook | None = None
    # Compensation
    compensation: tuple[Compensation, ...] = ()
    no_inverse: bool = False
    """Said outright: nothing takes the effect back."""
    follow_up: str | None = None
    """With no inverse: correction, ticket or stop that is offered to the reviewer."""

    @property
    def quiet_after_ms(self) -> int:
        """Milliseconds after the end of the last attempt from which absence means something (§7)."""
        return milliseconds(max(self.safe_window, self.longest_processing))

    @property
    def longest_processing_ms(self) -> int:
        return milliseconds(self.longest_processing)

    @property
    def key_honoured(self) -> bool:
        """Whether the provider honours the operation key for all attempts that this contract allows."""
        return self.operation_key is not None and self.operation_key.honoured

    def safe_when(self, tool: str | None = None) -> frozenset[ForwardOutcome]:
        """Forward outcomes under which the registered inverse *tool* is safe; None: under which some inverse is."""
        registered = (one for one in self.compensation if tool is None or one.tool == tool)
        return frozenset(outcome for compensation in registered for outcome in compensation.safe_when)


class Problem(msgspec.Struct, frozen=True):
    """What is wrong with a contract or a request: the field and the rule it breaks."""

    field: str
    rule: str

    def __str__(self) -> str:
        return f"{self.field}: {self.rule}"


_ENCODER = msgspec.json.Encoder(order="deterministic")


def contract_json(contract: Contract) -> str:
    """Canonical JSON of *contract*: equal contracts give equal text."""
    return _ENCODER.encode(contract).decode()


@lru_cache(maxsize=1024)
def readable_contract(text: str) -> Contract | None:
    """Contract of *text* on the log; None where this release cannot read it, so that nothing is allowed that it might allow."""
    try:
        return msgspec.json.decode(text, type=Contract)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


@lru_cache(maxsize=1024)
def contract_from_json(text: str) -> Contract:
    """Contract of an `operation_prepared`.

    Raises:
        msgspec.ValidationError: names the field and the rule.
    """
    return msgspec.json.decode(text, type=Contract)
