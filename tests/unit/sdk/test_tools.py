"""Contracts are checked when a function is decorated, all at once; a registry holds what a process looks up by name."""

import typing
from types import ModuleType
from typing import Any

import msgspec
import pytest

from landed.core.contract import Compensation, Contract, Effect, OperationKey, Probe
from landed.core.vocabulary import ActionClass, OnAbsent, ReadKind
from landed.sdk.declare import ContractFields
from landed.sdk.errors import ContractError, LandedError, SettingsError
from landed.sdk.probes import Absent, ProbeAnswer, ProbeRequest
from landed.sdk.registry import ToolRegistry, load_registry
from landed.sdk.tools import OPTIONS, effect


def refund(order_id: str, amount: int = 5, key: str = "") -> dict[str, str]:
    return {"id": "re_1"}


def test_the_fields_of_the_decorator_are_those_of_the_contract() -> None:
    """Names and, but for shorthands, types: the two lists cannot drift apart."""
    assert set(typing.get_type_hints(ContractFields)) == {field.name for field in msgspec.structs.fields(Contract)}


def test_a_contract_may_be_given_whole_or_by_its_fields() -> None:
    ready = Contract(
        tool="refund", effect=Effect(kind="refund.create"), stored_args=("order_id",), outcome_probe=Probe(tool="find")
    )
    by_fields = effect(effect="refund.create", stored_args=["order_id"], outcome_probe="find")(refund)
    assert effect(ready)(refund).contract == by_fields.contract == ready


def test_words_are_taken_as_text_and_as_members() -> None:
    by_text = effect(effect="refund.create", action_class="irreversible", on_absent="escalate")(refund)
    by_member = effect(effect="refund.create", action_class=ActionClass.IRREVERSIBLE, on_absent=OnAbsent.ESCALATE)(refund)
    assert by_text.contract == by_member.contract


def test_a_contract_and_fields_at_once_are_refused() -> None:
    ready = Contract(tool="refund", effect=Effect(kind="refund.create"))
    with pytest.raises(ContractError, match="lease: is in the contract already"):
        effect(ready, lease=5.0)(refund)


def test_every_broken_field_is_named_with_its_rule_in_one_error() -> None:
    fields: Any = {
        "lease": "soon",
        "effect": {"kind": "refund.create", "color": "red"},
        "action_class": "harmless",
        "colour": "red",
        "operation_key": {"argument": 5},
    }
    with pytest.raises(ContractError) as caught:
        effect(**fields)(refund)
    assert {(problem.field, problem.rule.split(",")[0]) for problem in caught.value.problems} == {
        ("lease", "expected `float`"),
        ("effect", "object contains unknown field `color`"),
        ("action_class", "invalid enum value 'harmless'"),
        ("colour", "is not a field of a contract"),
        ("operation_key.argument", "expected `str | null`"),
    }
    assert "contract of 'refund'" in str(caught.value)
    assert isinstance(caught.value, LandedError)


RULES: list[tuple[dict[str, Any], str]] = [
    ({}, "effect: is required"),
    ({"effect": ""}, "effect.kind: must not be empty"),
    ({"effect": "a.b", "lease": 0.0}, "lease: must be greater than 0"),
    ({"effect": "a.b", "stored_args": ["colour"]}, "stored_args: 'colour' is not an argument of the function"),
    ({"effect": "a.b", "identity_args": ["colour"]}, "identity_args: 'colour' is not an argument"),
    ({"effect": "a.b", "volatile_args": ["colour"]}, "volatile_args: 'colour' is not an argument"),
    ({"effect": "a.b", "free_text_args": ["colour"]}, "free_text_args: 'colour' is not an argument"),
    ({"effect": "a.b", "personal": ["colour"]}, "personal: 'colour' is not an argument"),
    ({"effect": "a.b", "dry_run": "colour"}, "dry_run: 'colour' is not an argument"),
    ({"effect": "a.b", "unique_field": "colour"}, "unique_field: 'colour' is not an argument"),
    ({"effect": "a.b", "operation_key": OperationKey(argument="colour")}, "operation_key.argument: 'colour' is not an argument"),
    ({"effect": "a.b", "operation_key": OperationKey()}, "operation_key: names exactly one"),
    ({"effect": "a.b", "action_class": "dedupe_supported"}, "action_class: dedupe_supported needs an operation_key"),
    ({"effect": "a.b", "on_absent": "retry"}, "on_absent: a retry after absence needs an outcome_probe"),
    ({"effect": "a.b", "outcome_probe": Probe(tool="find", lookup_key="order_id")}, "outcome_probe.lookup_key: 'order_id'"),
    ({"effect": "a.b", "reference_pattern": "re_["}, "reference_pattern: is not a regular expression"),
    ({"effect": "a.b", "business_key": "refund:{colour}"}, "names 'colour', which is not an argument"),
    ({"effect": "a.b", "business_key": "refund"}, "business_key: 'refund' names no argument"),
    ({"effect": "a.b", "business_key": "refund:{"}, "business_key: 'refund:{' is not a template"),
    ({"effect": "a.b", "business_key": "{amount}", "volatile_args": ["amount"]}, "names 'amount', left out of the hash"),
    ({"effect": "a.b", "resources": ["order:{colour}"]}, "resources: 'order:{colour}' names 'colour'"),
    ({"effect": "a.b", "unit": "item"}, "unit: 'item' needs a caller that claims each item"),
    ({"effect": "a.b", "outcome_probe": {"tool": "find", "read_kind": "guess"}}, "outcome_probe.read_kind: invalid enum value"),
]


@pytest.mark.parametrize(("fields", "rule"), RULES, ids=[row[1] for row in RULES])
def test_a_contract_that_breaks_a_rule_is_refused_when_the_function_is_decorated(fields: dict[str, Any], rule: str) -> None:
    with pytest.raises(ContractError) as caught:
        effect(**fields)(refund)
    assert rule in str(caught.value)


def test_a_function_must_take_its_arguments_by_name_and_return_its_answer() -> None:
    def splat(*args: int, **kwargs: int) -> None: ...
    def positional(a: int, /) -> None: ...
    def yields() -> Any:
        yield 1

    for function, rule in ((splat, "arguments.args: must be passed by name"), (positional, "arguments.a"), (yields, "not yield")):
        with pytest.raises(ContractError, match=rule):
            effect(effect="a.b")(function)


@pytest.mark.parametrize("word", sorted(OPTIONS - {"self"}))
def test_a_word_of_perform_is_no_name_for_an_argument(word: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def made({word}): return {word}", space)
    with pytest.raises(ContractError, match=f"arguments.{word}: is a word of perform"):
        effect(effect="a.b")(space["made"])


def test_attributes_of_the_function_do_not_become_the_tools() -> None:
    def marked() -> None: ...

    marked.contract = "another"  # type: ignore[attr-defined]
    tool = effect(effect="a.b")(marked)
    assert tool.contract.tool == "marked"


def test_a_tool_keeps_the_name_and_the_docstring_of_its_function() -> None:
    tool = effect(effect="a.b")(refund)
    assert (tool.name, tool.__name__, tool.function) == ("refund", "refund", refund)  # type: ignore[attr-defined]
    assert effect(effect="a.b", tool="billing.refund")(refund).name == "billing.refund"
    assert repr(tool) == "<tool 'refund'>"


# ---- what is registered beside a tool ---------------------------------------------------------------------------------


def find(request: ProbeRequest) -> ProbeAnswer:
    return Absent()


@pytest.mark.parametrize(("slot", "field"), [("probe", "outcome_probe"), ("verify", "verify")])
def test_a_function_for_something_undeclared_is_refused(slot: str, field: str) -> None:
    tool = effect(effect="a.b")(refund)
    with pytest.raises(ContractError, match=f"{field}: must be declared"):
        getattr(tool, slot)(find)


def test_an_inverse_is_a_tool_that_the_contract_names() -> None:
    tool = effect(effect="a.b", compensation=[Compensation(tool="cancel_refund")])(refund)

    def cancel_refund(refund_id: str) -> None: ...

    def other(refund_id: str) -> None: ...

    with pytest.raises(ContractError, match="an inverse is a tool"):
        tool.inverse(cancel_refund)  # type: ignore[arg-type]
    with pytest.raises(ContractError, match="does not declare 'other'"):
        tool.inverse(effect(effect="c.d")(other))
    inverse = tool.inverse(effect(effect="c.d")(cancel_refund))
    assert tool.inverses == {"cancel_refund": inverse}


def test_a_registry_gives_tools_and_inverses_by_name() -> None:
    registry = ToolRegistry()
    tool = registry.effect(effect="a.b", compensation=[Compensation(tool="cancel_refund")])(refund)

    @tool.inverse
    @effect(effect="c.d")
    def cancel_refund(refund_id: str) -> None: ...

    assert registry.tool("refund") is tool
    assert registry.tool("cancel_refund") is cancel_refund
    assert registry.tool("nobody") is None
    assert list(registry) == [tool]
    assert registry.add(tool) is tool
    with pytest.raises(ContractError, match="another tool of the registry has this name"):
        registry.effect(effect="a.b")(refund)


def test_an_operation_is_looked_up_as_its_own_contract_says_not_as_todays_code_does() -> None:
    registry = ToolRegistry()
    tool = registry.effect(effect="a.b", outcome_probe="find")(refund)
    assert registry.probe(tool.contract) is None, "declared and not registered"
    tool.probe(find)
    assert registry.probe(tool.contract) is find
    of_old = msgspec.structs.replace(tool.contract, outcome_probe=Probe(tool="search", read_kind=ReadKind.SEARCH_INDEX))
    assert registry.probe(of_old) is None
    assert registry.probe(msgspec.structs.replace(tool.contract, tool="nobody")) is None
    assert registry.probe(msgspec.structs.replace(tool.contract, outcome_probe=None)) is None


def test_a_registry_can_be_checked_for_functions_that_are_missing() -> None:
    registry = ToolRegistry()
    registry.effect(effect="a.b", outcome_probe="find", verify="look", compensation=[Compensation(tool="cancel_refund")])(refund)
    with pytest.raises(ContractError) as caught:
        registry.check()
    assert [problem.field for problem in caught.value.problems] == [
        "refund.outcome_probe",
        "refund.verify",
        "refund.compensation",
    ]


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    import sys

    module = ModuleType("acme_tools")
    module.registry = ToolRegistry()  # type: ignore[attr-defined]
    module.other = 5  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "acme_tools", module)
    return module


def test_a_registry_is_loaded_by_its_import_path(acme: ModuleType) -> None:
    assert load_registry("acme_tools:registry") is acme.registry


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("acme_tools", "must be module:attribute"),
        (":registry", "must be module:attribute"),
        ("acme_tools:missing", "'missing' is missing"),
        ("acme_tools:other", "'other' is not a ToolRegistry"),
        ("no_such_module_here:registry", "cannot be imported (ModuleNotFoundError)"),
    ],
)
def test_a_path_that_leads_to_no_registry_says_what_is_wrong(acme: ModuleType, path: str, rule: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_registry(path)
    assert rule in str(caught.value)
