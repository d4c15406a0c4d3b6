"""What a call proves: only declared errors, and errors before any byte left, prove that nothing happened (semantics.md §6)."""

import dataclasses
from typing import Any

import pytest

from landed.core.contract import Contract, Effect, OperationKey, Verify
from landed.core.inverse import Gone
from landed.core.vocabulary import BytesLeft
from landed.sdk.classify import Failed, InDoubt, Raised, Returned, Succeeded, classify, raised
from landed.sdk.errors import NotSent, ToolError
from landed.sdk.results import Pending


def contract(**fields: Any) -> Contract:
    given = {"reference_field": "id", "receipt_fields": ("id",), "no_effect_errors": ("card_declined", "404", "Forbidden")}
    return Contract(**{"tool": "refund", "effect": Effect(kind="refund.create"), **given, **fields})


class ProviderSaid(Exception):
    def __init__(self, code: object = None, status: object = None, text: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.status = status


class Forbidden(Exception): ...


def _chained(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def _while_handling(error: Exception, context: Exception) -> Exception:
    error.__context__ = context
    return error


ERRORS: list[tuple[str, BaseException, str, str]] = [
    ("a declared code", ProviderSaid("card_declined"), "rejected", "card_declined"),
    ("a declared code of a ToolError", ToolError("card_declined"), "rejected", "card_declined"),
    ("a declared status where there is no code", ProviderSaid(None, 404), "rejected", "404"),
    ("a declared status beside an undeclared code", ProviderSaid("locked", 404), "unknown", "ProviderSaid"),
    ("a declared class", Forbidden("no"), "rejected", "Forbidden"),
    ("an undeclared code", ProviderSaid("rate_limited", 429), "unknown", "ProviderSaid"),
    ("5xx", ProviderSaid(None, 503), "unknown", "ProviderSaid"),
    ("a code that is no short word", ProviderSaid("card declined: 4242 4242"), "unknown", "ProviderSaid"),
    ("nothing sent", NotSent(), "rejected", "not_sent"),
    ("a refused connection, which an earlier request may precede", ConnectionRefusedError(), "unknown", "ConnectionRefusedError"),
    (
        "a refused connection after another try",
        _chained(ConnectionRefusedError(), TimeoutError()),
        "unknown",
        "ConnectionRefusedError",
    ),
    (
        "a refused connection while handling a reset",
        _while_handling(ConnectionRefusedError(), ConnectionResetError()),
        "unknown",
        "ConnectionRefusedError",
    ),
    ("an error caused by a refused connection", _chained(ProviderSaid(), ConnectionRefusedError()), "unknown", "ProviderSaid"),
    ("a reset", ConnectionResetError(), "unknown", "ConnectionResetError"),
    ("a time-out", TimeoutError(), "unknown", "TimeoutError"),
    ("a broken pipe", BrokenPipeError(), "unknown", "BrokenPipeError"),
    ("a bug in the tool", KeyError("id"), "unknown", "KeyError"),
]


@pytest.mark.parametrize(("error", "kind", "word"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_an_error_proves_that_nothing_happened_only_where_the_contract_or_the_wire_says_so(
    error: BaseException, kind: str, word: str
) -> None:
    found = classify(contract(), raised(error))
    assert found == (Failed(error_code=word) if kind == "rejected" else InDoubt(error_class=word, bytes_left=BytesLeft.UNKNOWN))


def test_an_error_that_says_the_object_exists_is_no_proof_of_anything() -> None:
    found = classify(contract(already_exists_errors=("duplicate",)), raised(ProviderSaid("duplicate")))
    assert found == InDoubt(error_class="already_exists", bytes_left=BytesLeft.YES)


def test_what_exists_already_is_our_own_only_after_an_unanswered_try_under_the_same_key() -> None:
    exists, key = raised(ProviderSaid("duplicate")), OperationKey(header="Idempotency-Key")
    keyed = contract(already_exists_errors=("duplicate",), operation_key=key)
    assert classify(keyed, exists, own_try=True) == Succeeded(reference=None, receipt=None)
    in_doubt = InDoubt(error_class="already_exists", bytes_left=BytesLeft.YES)
    assert classify(keyed, exists) == in_doubt
    assert classify(contract(already_exists_errors=("duplicate",)), exists, own_try=True) == in_doubt
    assert isinstance(classify(keyed, raised(ProviderSaid("other")), own_try=True), InDoubt)


def test_what_an_inverse_finds_gone_is_a_no_op_and_is_looked_up_where_a_probe_can_tell() -> None:
    gone, said = Gone(errors=("404", "removed")), raised(ProviderSaid("404"))
    assert classify(contract(no_effect_errors=("404",)), said, gone=gone) == Succeeded(reference=None, receipt=None, no_op=True)
    answered = Returned(answer={"status": "removed"})
    removed = classify(contract(success_when={"status": "done"}), answered, gone=gone)
    assert removed == Succeeded(reference=None, receipt=None, no_op=True)
    look = Gone(errors=("404",), looked_up=True)
    assert classify(contract(), said, gone=look) == InDoubt(error_class="gone_already", bytes_left=BytesLeft.YES)
    assert isinstance(classify(contract(), raised(ProviderSaid("500")), gone=gone), InDoubt)


def test_gone_that_counts_only_after_an_own_try_proves_nothing_at_the_first() -> None:
    gone, said = Gone(errors=("410",), only_after_own_try=True), raised(ProviderSaid("410"))
    assert isinstance(classify(contract(), said, gone=gone), InDoubt)
    assert classify(contract(), said, own_try=True, gone=gone) == Succeeded(reference=None, receipt=None, no_op=True)


class Plain:
    """An answer without fields."""


@dataclasses.dataclass
class Made:
    id: str


def doubt(kind: str, reference: str | None = None, **fields: Any) -> InDoubt:
    return InDoubt(error_class=kind, bytes_left=BytesLeft.YES, reference=reference, **fields)


def receipt(reference: str) -> Succeeded:
    return Succeeded(reference=reference, receipt=f'{{"id":"{reference}"}}')


ANSWERS: list[tuple[str, dict[str, Any], Any, Any]] = [
    ("a reference", {}, {"id": "re_1", "secret": "s"}, receipt("re_1")),
    ("an object with fields", {}, Made(id="re_1"), receipt("re_1")),
    (
        "a reference deeper inside",
        {"reference_field": "data.id", "receipt_fields": ()},
        {"data": {"id": "x"}},
        Succeeded(reference="x", receipt=None),
    ),
    ("a whole number as reference", {"receipt_fields": ()}, {"id": 7}, Succeeded(reference="7", receipt=None)),
    ("nothing", {}, None, doubt("empty_answer")),
    ("an empty object", {}, {}, doubt("empty_answer")),
    ("an empty text", {}, "", doubt("empty_answer")),
    ("no reference", {}, {"amount": 5}, doubt("reference_missing")),
    ("no fields at all", {}, Plain(), doubt("reference_missing")),
    ("a text instead of fields", {}, "re_1", doubt("reference_missing")),
    ("an empty reference", {}, {"id": ""}, doubt("reference_malformed")),
    ("a blank reference", {}, {"id": "  "}, doubt("reference_malformed")),
    ("a reference with control characters", {}, {"id": "re\n1"}, doubt("reference_malformed")),
    ("a lone surrogate as reference", {}, {"id": "\ud800"}, doubt("reference_malformed")),
    ("a reference that is too long", {}, {"id": "x" * 501}, doubt("reference_malformed")),
    ("a truth value as reference", {}, {"id": True}, doubt("reference_malformed")),
    ("a list as reference", {}, {"id": ["re_1"]}, doubt("reference_malformed")),
    ("a reference of the pattern", {"reference_pattern": r"re_\d+"}, {"id": "re_12"}, receipt("re_12")),
    (
        "a reference that only starts like the pattern",
        {"reference_pattern": r"re_\d+"},
        {"id": "re_12; x"},
        doubt("reference_malformed"),
    ),
    ("a success as declared", {"success_when": {"status": "ok"}}, {"id": "re_1", "status": "ok"}, receipt("re_1")),
    ("a truth value as declared", {"success_when": {"paid": "true"}}, {"id": "re_1", "paid": True}, receipt("re_1")),
    ("another status", {"success_when": {"status": "ok"}}, {"id": "re_1", "status": "pending"}, doubt("not_a_success", "re_1")),
    ("no status", {"success_when": {"status": "ok"}}, {"id": "re_1"}, doubt("not_a_success", "re_1")),
    (
        "a declared error as status",
        {"success_when": {"status": "ok"}},
        {"id": "re_1", "status": "card_declined"},
        Failed(error_code="card_declined"),
    ),
    ("accepted, not settled", {"settles_after": 60.0}, Pending("re_1"), doubt("pending", "re_1", settles_after_ms=60_000)),
    ("accepted with a bad reference", {}, Pending(""), doubt("reference_malformed")),
    (
        "any answer where nothing is declared",
        {"reference_field": None, "receipt_fields": ()},
        "done",
        Succeeded(reference=None, receipt=None),
    ),
]


@pytest.mark.parametrize(("fields", "answer", "expected"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_an_answer_is_a_success_only_with_everything_that_the_contract_declares(
    fields: dict[str, Any], answer: Any, expected: Any
) -> None:
    assert classify(contract(**fields), Returned(answer=answer)) == expected


def test_a_verified_contract_classifies_alike_since_the_read_comes_after() -> None:
    assert classify(contract(verify=Verify(tool="look")), Returned(answer={"id": "re_1"})) == receipt("re_1")


def test_a_receipt_is_bounded_as_a_whole_so_that_its_event_fits_the_log() -> None:
    names = tuple(f"field_{number}" for number in range(100))
    answer = {"id": "re_1", **dict.fromkeys(names, "x" * 16000)}
    found = classify(contract(receipt_fields=("id", *names)), Returned(answer=answer))
    assert isinstance(found, Succeeded)
    assert found.receipt is not None
    assert '"id":"re_1"' in found.receipt
    assert 16_000 < len(found.receipt) <= 2**17


@pytest.mark.parametrize(
    "value", [object(), "x" * 20_000, "\ud800", float("nan").hex], ids=["object", "too large", "surrogate", "method"]
)
def test_a_receipt_field_that_the_log_cannot_take_is_left_out_and_the_effect_is_still_recorded(value: Any) -> None:
    found = classify(contract(receipt_fields=("id", "extra")), Returned(answer={"id": "re_1", "extra": value}))
    assert found == receipt("re_1")


class Hostile(dict[str, Any]):
    """An answer, or an error, of a library whose fields are computed and fail."""

    def get(self, name: str, default: Any = None) -> Any:
        raise RuntimeError("lazy")


class HostileError(Exception):
    @property
    def code(self) -> str:
        raise RuntimeError("lazy")

    status_code = request_id = code


def test_an_answer_or_error_that_cannot_be_read_is_in_doubt_and_breaks_nothing() -> None:
    """Whatever broke here would keep the outcome of a call that was made off the log."""
    assert classify(contract(), Returned(answer=Hostile(id="re_1"))) == doubt("answer_unreadable")
    assert raised(HostileError()) == Raised(error_class="HostileError")


def test_of_an_error_class_code_status_and_request_id_are_kept_and_no_text() -> None:
    error = ToolError("card_declined", status=402, request_id="req_1")
    expected = Raised(error_class="ToolError", error_code="card_declined", response_status="402", provider_request_id="req_1")
    assert raised(error) == expected
    assert raised(ProviderSaid("a code with spaces", text="secret")) == Raised(error_class="ProviderSaid")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("around", [lambda n: n, lambda n: [1.5, n], lambda n: {"sum": {"value": n}}])
def test_what_is_no_number_leaves_its_field_out_of_the_receipt_instead_of_telling_null(number: float, around: Any) -> None:
    given = contract(receipt_fields=("id", "amount", "note"))
    said = {"id": "re_1", "amount": around(number), "note": None}
    assert classify(given, Returned(answer=said)) == Succeeded(reference="re_1", receipt='{"id":"re_1","note":null}')
