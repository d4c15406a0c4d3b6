"""Who an operation is (semantics.md §1): ids, routes, the request hash and the digests that name the argument that differs."""

import hashlib
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import pytest

from landed.core.contract import Contract, Effect, OperationKey
from landed.core.identity import (
    RequestError,
    argument_digests,
    canonical_json,
    check_id,
    hashed_arguments,
    normalized,
    rendered,
    request_hash,
    route_of,
    stored_arguments,
)

REFUND = Contract(tool="refund", effect=Effect(kind="refund.create"))

# ---- ids ----------------------------------------------------------------------------------------------------------------

GOOD_IDS = ["x", "x" * 180, "book/flight 7", "Zürich", "日本", "refund:42", "a:b:c", "compensate", "compensat:x", "Compensate:x"]


@pytest.mark.parametrize("value", GOOD_IDS)
def test_an_id_is_text_of_1_to_180_characters(value: str) -> None:
    assert check_id("operation_id", value) == value


BAD_IDS: list[tuple[object, str]] = [
    ("", "1 to 180 characters, got 0"),
    ("x" * 181, "1 to 180 characters, got 181"),
    (7, "must be text, got int"),
    (None, "must be text, got NoneType"),
    (b"x", "must be text, got bytes"),
    ("a\nb", "control characters"),
    ("a\x00", "control characters"),
    ("a\x7f", "control characters"),
    ("a\x85b", "control characters"),
    ("\ud800", "surrogates"),
    ("compensate:x", "must not start with 'compensate:'"),
    ("policy:x", "must not start with 'policy:'"),
]


@pytest.mark.parametrize(("value", "rule"), BAD_IDS)
def test_a_bad_id_is_refused_with_field_and_rule(value: object, rule: str) -> None:
    with pytest.raises(RequestError, match=rule) as refused:
        check_id("group_id", value)
    assert refused.value.problem.field == "group_id"
    assert str(refused.value).startswith("group_id: ")


@pytest.mark.parametrize("value", ["compensate:x", "compensate:x:2", f"compensate:{'x' * 180}", f"compensate:{'x' * 180}:12"])
def test_the_longest_operation_has_an_inverse_too(value: str) -> None:
    assert check_id("operation_id", value, inverse_allowed=True) == value


@pytest.mark.parametrize("value", ["compensate:", "compensate:compensate:x", "compensate:policy:x", f"compensate:{'x' * 181}"])
def test_an_inverse_is_that_of_an_operation(value: str) -> None:
    with pytest.raises(RequestError):
        check_id("operation_id", value, inverse_allowed=True)


@pytest.mark.parametrize(
    ("operation_id", "group_id", "route"),
    [("x", "g", "g"), ("x", None, "x"), ("compensate:x", "g", "g"), ("compensate:x", None, "x")],
)
def test_the_route_is_the_group_or_the_operation_itself(operation_id: str, group_id: str | None, route: str) -> None:
    assert route_of(operation_id, group_id) == route


# ---- canonical JSON (RFC 8785) ------------------------------------------------------------------------------------------

VECTORS: list[tuple[Any, str]] = [
    # Appendix B of the RFC: numbers as ECMAScript prints them
    ([0.0, -0.0, 5e-324, 1.7976931348623157e308], "[0,0,5e-324,1.7976931348623157e+308]"),
    (
        [333333333.3333333, 1e21, 1e20, 9.999999999999997e-7],
        "[333333333.3333333,1e+21,100000000000000000000,9.999999999999997e-7]",
    ),
    ([1e30, 4.5, 2e-3, 1e-27, 1e-6], "[1e+30,4.5,0.002,1e-27,0.000001]"),
    # §3.2.2: literals, escapes, non-ASCII as it is
    (
        {"numbers": [333333333.33333329, 1e30], "string": '€$\x0f\nA\'B"\\"/', "literals": [None, True, False]},
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30],"string":"€$\\u000f\\nA\'B\\"\\\\\\"/"}',
    ),
    # §3.2.3: members sorted by UTF-16 code units
    (
        {"€": "Euro", "\r": "CR", "\ufb33": "Hebrew", "1": "One", "😀": "Smiley", "\x80": "Control", "ö": "o"},
        '{"\\r":"CR","1":"One","\x80":"Control","ö":"o","€":"Euro","😀":"Smiley","\ufb33":"Hebrew"}',
    ),
    # the bounds of whole numbers
    ([2**53, -(2**53), 2**53 - 1, 1.0], "[9007199254740992,-9007199254740992,9007199254740991,1]"),
]


@pytest.mark.parametrize(("value", "text"), VECTORS)
def test_canonical_json_is_that_of_rfc_8785(value: Any, text: str) -> None:
    assert canonical_json(value).decode() == text


def test_the_request_hash_is_sha256_of_tool_and_arguments() -> None:
    expected = hashlib.sha256(b'{"arguments":{"amount":5,"to":["a",{"b":null}]},"tool":"refund"}').hexdigest()
    assert request_hash(REFUND, {"to": ("a", {"b": None}), "amount": 5}) == expected


SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": 1}, {"a": 1.0}),
    ({"a": 0.0}, {"a": -0.0}),
    ({"a": ("x", "y")}, {"a": ["x", "y"]}),
    ({"name": "Z\u00fcrich"}, {"name": "Zu\u0308rich"}),
    ({"\u00fc": 1}, {"u\u0308": 1}),
    ({"deep": {"\u00fc": ["\u00e9"]}}, {"deep": {"u\u0308": ["e\u0301"]}}),
]
DIFFERENT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {"a": "1"}),
    ({"a": 1}, {"a": True}),
    ({"a": None}, {}),
    ({"a": ["x", "y"]}, {"a": ["y", "x"]}),
    ({"a": {"b": 1}}, {"a": {"c": 1}}),
    ({"a": 0.1}, {"a": 0.10000000000000002}),
    ({"name": "Zurich"}, {"name": "Zürich"}),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_request_written_otherwise_has_the_same_hash(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert request_hash(REFUND, one) == request_hash(REFUND, other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_request_has_another_hash(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert request_hash(REFUND, one) != request_hash(REFUND, other)


def test_the_tool_is_part_of_the_hash() -> None:
    other = Contract(tool="charge", effect=Effect(kind="charge.create"))
    assert request_hash(REFUND, {"a": 1}) != request_hash(other, {"a": 1})


class Colour(IntEnum):
    RED = 3


def test_numbers_are_taken_as_numbers_whatever_class_they_have() -> None:
    assert request_hash(REFUND, {"a": Colour.RED}) == request_hash(REFUND, {"a": 3})


LEFT_OUT = Contract(
    tool="refund",
    effect=Effect(kind="refund.create"),
    volatile_args=("at",),
    free_text_args=("memo", "Gro\u0308\u00dfe"),
    operation_key=OperationKey(argument="key"),
    stored_args=("order", "Straße"),
)


def test_volatile_and_free_text_arguments_and_the_operation_key_are_left_out_of_the_hash() -> None:
    one = {"order": 7, "at": "10:00", "memo": "sorry", "key": "k1", "Größe": 1}
    other = {"order": 7, "at": "11:30", "memo": "apologies", "key": "k2", "Größe": 2}
    assert request_hash(LEFT_OUT, one) == request_hash(LEFT_OUT, other) == request_hash(LEFT_OUT, {"order": 7})
    assert hashed_arguments(LEFT_OUT, one) == {"order": 7}
    assert set(argument_digests(LEFT_OUT, one, key=b"s")) == {"order"}


def test_only_a_top_level_argument_is_left_out() -> None:
    assert request_hash(LEFT_OUT, {"x": {"memo": "a"}}) != request_hash(LEFT_OUT, {"x": {"memo": "b"}})


REFUSED: list[tuple[dict[Any, Any], str, str]] = [
    ({"a": 2**53 + 1}, "arguments.a", "beyond"),
    ({"a": -(2**53) - 1}, "arguments.a", "beyond"),
    ({"a": {"b": [0, 10**30]}}, "arguments.a.b[1]", "beyond"),
    ({"a": float("nan")}, "arguments.a", "not finite"),
    ({"a": float("inf")}, "arguments.a", "not finite"),
    ({"a": [float("-inf")]}, "arguments.a[0]", "not finite"),
    ({1: "a"}, "arguments", "keys must be text, got int"),
    ({"a": {None: 1}}, "arguments.a", "keys must be text, got NoneType"),
    ({"a": b"x"}, "arguments.a", "not JSON: bytes"),
    ({"a": {1, 2}}, "arguments.a", "not JSON: set"),
    ({"a": [object()]}, "arguments.a[0]", "not JSON: object"),
    ({"a": "\ud800"}, "arguments.a", "surrogates"),
    ({"\udfff": 1}, "arguments", "surrogates"),
    ({"\u00fc": 1, "u\u0308": 2}, "arguments.ü", "given twice"),
    ({"a": {"\u00e9": 1, "e\u0301": 1}}, "arguments.a.é", "given twice"),
]


@pytest.mark.parametrize(("arguments", "field", "rule"), REFUSED)
def test_arguments_that_readers_may_understand_differently_are_refused_with_their_path(
    arguments: dict[Any, Any], field: str, rule: str
) -> None:
    takes: list[Callable[[], object]] = [
        lambda: normalized(arguments),
        lambda: request_hash(REFUND, arguments),
        lambda: argument_digests(REFUND, arguments, key=b"s"),
    ]
    for take in takes:
        with pytest.raises(RequestError, match=rule) as refused:
            take()
        assert refused.value.problem.field == field


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_is_bounded() -> None:
    """Also where a value holds itself: the answer is a refusal, never a full stack."""
    assert request_hash(REFUND, {"a": nested(99)})
    endless: list[Any] = []
    endless.append(endless)
    for value in (nested(100), nested(100_000), endless):
        with pytest.raises(RequestError, match="nested deeper than 100 levels") as refused:
            normalized({"a": value})
        assert len(str(refused.value)) < 300


# ---- digests and stored arguments ---------------------------------------------------------------------------------------


def test_a_keyed_digest_names_the_argument_that_differs_and_shows_nothing() -> None:
    one = argument_digests(REFUND, {"amount": 5, "order": 7}, key=b"secret")
    other = argument_digests(REFUND, {"amount": 6, "order": 7}, key=b"secret")
    assert [name for name in one if one[name] != other[name]] == ["amount"]
    assert one != argument_digests(REFUND, {"amount": 5, "order": 7}, key=b"another")
    assert all(len(digest) == 32 and int(digest, 16) >= 0 for digest in one.values())


def test_equal_values_of_different_arguments_have_different_digests() -> None:
    digests = argument_digests(REFUND, {"from": "acc", "to": "acc"}, key=b"s")
    assert digests["from"] != digests["to"]


def test_only_allowed_arguments_are_stored() -> None:
    assert stored_arguments(LEFT_OUT, {"order": 7, "card": "4242", "Straße": "A"}) == {"order": 7, "Straße": "A"}
    assert stored_arguments(REFUND, {"order": 7}) == {}


# ---- templates ----------------------------------------------------------------------------------------------------------


def test_a_template_names_an_operation_by_its_business_key() -> None:
    assert rendered("refund:{order}:{n}", {"order": "7", "n": 2, "other": [1]}, field="business_key") == "refund:7:2"


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ("refund:{missing}", "arguments.missing"),
        ("refund:{list}", "arguments.list"),
        ("refund:{nothing}", "arguments.nothing"),
        ("refund:{", "business_key"),
        ("refund:{}", "business_key"),
        ("refund:{0}", "business_key"),
        ("refund:{order.real}", "business_key"),
        ("refund:{order[x]}", "business_key"),
        ("refund:{order!z}", "business_key"),
        ("refund:{order:d}", "business_key"),
    ],
)
def test_a_template_that_cannot_be_filled_names_what_is_missing(template: str, field: str) -> None:
    with pytest.raises(RequestError) as refused:
        rendered(template, {"order": "7", "list": [1], "nothing": None}, field="business_key")
    assert refused.value.problem.field == field
