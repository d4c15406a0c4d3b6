"""The contract of a tool: what its author declares about effect, request, answer, reconciliation and compensation.

A contract describes; it never authorizes. Durations are seconds (float). The first accepted contract of an operation counts for
good, so it travels on the log inside `operation_prepared`, as canonical JSON.

Source: docs/semantics.md §4.
"""

from functools import lru_cache
from math import isfinite
from typing import Any, Final, Literal

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


class Verify(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    tool: str


class Requires(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Read right before an inverse; unmet, the inverse waits up to `wait` seconds."""

    read: str
    condition: str
    wait: float = 0.0


class Compensation(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    tool: str
    input_from: Literal["forward_output", "forward_input", "reconciliation"] = "forward_output"
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
    match: str
    order_by: str | None = None
    dedupe_by: str | None = None
    keep_unmatched: float = 0.0


class Contract(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Everything that the ledger knows about a tool. See `problems` for the rules."""

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


def _positive(contract: Contract) -> list[Problem]:
    found = []
    for name in ("lease", "longest_processing", "safe_window", "first_check_after", "backoff", "max_interval", "deadline"):
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
    if key is not None and key.lifetime is not None and not key.lifetime > 0:
        found.append(Problem("operation_key.lifetime", "must be greater than 0 (seconds)"))
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
    for number, compensation in enumerate(contract.compensation):
        if compensation.input_from == "forward_input":
            for name in compensation.required_fields:
                if name not in contract.stored_args:
                    found.append(Problem(f"compensation[{number}].required_fields", f"{name!r} is not among stored_args"))
    return found


def problems(contract: Contract) -> tuple[Problem, ...]:
    """Everything that is wrong with *contract*, each naming field and rule; empty when it is valid."""
    found = []
    if not contract.tool.strip():
        found.append(Problem("tool", "must not be empty"))
    if not contract.effect.kind.strip():
        found.append(Problem("effect.kind", "must not be empty"))
    return tuple(found + _positive(contract) + _request(contract) + _recovery(contract))


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


def contract_from_mapping(mapping: dict[str, Any]) -> Contract:
    """Contract of a decoded YAML or JSON document; raises as `contract_from_json` does."""
    return msgspec.convert(mapping, Contract)
