"""Contracts in files (docs/contracts.md): YAML and JSON say the same, and what is wrong names file, tool, field and rule."""

import sys
from pathlib import Path
from typing import Any

import pytest

from landed import Confirmed, ContractError, Effect, Ledger, OperationKey, ToolRegistry
from landed.core.contract import Compensation, Contract, Probe
from landed.core.vocabulary import ActionClass, ForwardOutcome, Reversible
from landed.sdk.contract_files import load_contracts, read_contracts

HERE = Path(__file__).parent / "contracts"

REFUND = """
tool: payments.refund
effect: refund.create
business_key: refund:{order_id}
operation_key: {argument: key}
no_effect_errors: [404, card_declined]
success_when: {paid: true, attempts: 1, status: done}
reference_field: id
outcome_probe: payments.find_refund
compensation: payments.cancel_refund
"""


def written(tmp_path: Path, text: str, name: str = "contracts.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def refused(path: Path) -> list[str]:
    with pytest.raises(ContractError) as caught:
        load_contracts(path)
    assert str(path) in str(caught.value)
    return [str(problem) for problem in caught.value.problems]


# ---- two contracts as a public article prints them -----------------------------------------------------------------------


def test_an_inventory_reservation_as_printed_in_an_article_loads_unchanged() -> None:
    (contract,) = load_contracts(HERE / "inventory_reservation.yaml")
    assert contract.tool == "reserve_inventory"
    assert contract.effect == Effect(kind="inventory_reservation", resource="inventory_item", reversible=Reversible.YES)
    assert contract.outcome_probe == Probe(tool="get_reservation")
    (inverse,) = contract.compensation
    assert (inverse.tool, inverse.input_from) == ("release_inventory", ("forward_output",))
    assert inverse.required_fields == ("reservation_id",)
    assert inverse.safe_when == (ForwardOutcome.SUCCEEDED, ForwardOutcome.UNKNOWN)


def test_a_payment_adjustment_as_printed_in_an_article_loads_unchanged() -> None:
    (contract,) = load_contracts(HERE / "payment_adjustment.json")
    assert contract.effect.reversible is Reversible.CONDITIONAL
    assert contract.compensation[0].safe_when == (ForwardOutcome.SUCCEEDED,)
    assert contract.compensation[0].input_from == ("forward_output", "reconciliation")


# ---- the form ------------------------------------------------------------------------------------------------------------


def test_what_may_be_written_short_is_the_same_contract(tmp_path: Path) -> None:
    (contract,) = load_contracts(written(tmp_path, REFUND))
    assert contract == Contract(
        tool="payments.refund",
        effect=Effect(kind="refund.create"),
        business_key="refund:{order_id}",
        operation_key=OperationKey(argument="key"),
        no_effect_errors=("404", "card_declined"),
        success_when={"paid": "true", "attempts": "1", "status": "done"},
        reference_field="id",
        outcome_probe=Probe(tool="payments.find_refund"),
        compensation=(Compensation(tool="payments.cancel_refund"),),
    )


@pytest.mark.parametrize(
    "text",
    [
        "- {tool: a, effect: x.make}\n- {tool: b, effect: x.make}\n",
        "contracts:\n- {tool: a, effect: x.make}\n- {tool: b, effect: x.make}\n",
    ],
)
def test_a_file_holds_one_contract_or_several(tmp_path: Path, text: str) -> None:
    assert [one.tool for one in load_contracts(written(tmp_path, text))] == ["a", "b"]


WRONG: list[tuple[str, str]] = [
    ("tool: a\neffect: x.make\nlease: soon\n", "a.lease: expected `float`, got `str`"),
    ("tool: a\neffect: x.make\nlease: 0\n", "a.lease: must be greater than 0 (seconds)"),
    ("tool: a\neffect: {kind: x.make, colour: red}\n", "a.effect: object contains unknown field `colour`"),
    ("tool: a\neffect: x.make\nmax_atempts: 2\n", "a.max_atempts: is not a field of a contract"),
    ("tool: a\n", "a.effect: is required: what the tool does, `resource.verb`"),
    ("effect: x.make\n", "contracts[0].tool: is required: the name of the tool"),
    ("tool: a\neffect: x.make\nstored_args: order\n", "a.stored_args: expected `array`, got `str`"),
    ("tool: a\neffect: x.make\non_absent: retry\n", "a.on_absent: a retry after absence needs an outcome_probe"),
    ("- {tool: a, effect: x.make}\n- {tool: a, effect: x.make}\n", "a.tool: another contract of the file has this name"),
    (
        "tool: a\neffect: x.make\nno_effect_errors: [no]\ncompensation: [{tool: u, safe_when: [no]}]\n",
        "a.compensation[0].safe_when",
    ),
    ("tool: a\neffect: x.make\nlease: 1\nlease: 2\n", "file: 'lease' is given twice (line 4, column 1)"),
    ("tool: a\neffect: &e {kind: x.make}\nverify: *e\n", "file: aliases are not taken"),
    ("tool: a\neffect: {<<: {kind: x.make}}\n", "file: merge keys are not taken"),
    ("tool: a\neffect: !!python/object/apply:os.getcwd []\n", "file: could not determine a constructor"),
    ("tool: [a\n", "file: expected ',' or ']', but got '<stream end>' (line 2, column 1)"),
    ("", "contracts: there are none"),
    ("- 7\n", "contracts[0].contract: must be an object of fields, is a number"),
    ("contracts: []\n", "contracts: there are none"),
    ("contracts: {tool: a}\n", "contracts: must be a list of contracts"),
    ("contracts: []\nversion: 2\n", "version: is not known beside `contracts`"),
]


@pytest.mark.parametrize(("text", "told"), WRONG)
def test_what_is_wrong_with_a_file_names_tool_field_and_rule(tmp_path: Path, text: str, told: str) -> None:
    assert any(one.startswith(told) for one in refused(written(tmp_path, text))), refused(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"tool": "a", "effect": "x.make", "lease": NaN}', "file: NaN is not a number"),
        ('{"tool": "a", "effect": "x.make", "tool": "b"}', "file: 'tool' is given twice"),
        ('{"tool": "a"', "file: Expecting"),
        ("[" * 100_000, "file: "),
    ],
)
def test_what_is_wrong_with_a_json_file_is_told(tmp_path: Path, text: str, told: str) -> None:
    assert refused(written(tmp_path, text, "contracts.json"))[0].startswith(told)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.yaml") == ["file: cannot be read (No such file or directory)"]


def test_everything_wrong_with_a_file_is_told_at_once_and_nothing_of_it_is_taken(tmp_path: Path) -> None:
    path = written(tmp_path, "- {tool: a, effect: x.make, lease: 0, nonsense: 1}\n- {tool: b, effect: x.make}\n- {tool: c}\n")
    assert {one.split(":")[0] for one in refused(path)} == {"a.nonsense", "c.effect"}
    assert [one.tool for one in read_contracts(path).contracts] == ["b"]


def test_yaml_without_its_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert refused(written(tmp_path, REFUND)) == ["file: contracts in YAML need: pip install 'landed[yaml]'"]


# ---- bound to functions ---------------------------------------------------------------------------------------------------


def test_contracts_of_a_file_bind_to_functions_by_the_name_of_the_tool(tmp_path: Path) -> None:
    registry = ToolRegistry()
    path = written(
        tmp_path, "tool: payments.refund\neffect: refund.create\nbusiness_key: 'refund:{order_id}'\nreference_field: id\n"
    )
    assert registry.load_contracts(path) == ("payments.refund",)

    @registry.bind("payments.refund")
    def refund(order_id: str) -> dict[str, str]:
        return {"id": f"re_{order_id}"}

    registry.check()
    assert registry.tool("payments.refund") is refund
    assert registry.contract_files == {"payments.refund": str(path)}
    with Ledger.connect("memory://", tenant="acme") as ledger:
        result = ledger.perform(refund, order_id="7")
    assert isinstance(result, Confirmed)
    assert (result.operation_id, result.reference) == ("refund:7", "re_7")


def test_a_contract_that_no_function_keeps_is_a_mistake(tmp_path: Path) -> None:
    registry = ToolRegistry()
    registry.load_contracts(written(tmp_path, "tool: a\neffect: x.make\n"))
    with pytest.raises(ContractError, match=r"a\.tool: of .*contracts\.yaml is bound to no function"):
        registry.check()


def test_a_function_that_does_not_keep_to_its_contract_is_told_with_the_file(tmp_path: Path) -> None:
    registry = ToolRegistry()
    path = written(tmp_path, "tool: a\neffect: x.make\nstored_args: [order]\n")
    registry.load_contracts(path)
    with pytest.raises(ContractError, match=r"contracts\.yaml: a\.stored_args: 'order' is not an argument"):

        @registry.bind("a")
        def make(amount: int) -> None: ...


def test_a_function_without_a_contract_is_refused(tmp_path: Path) -> None:
    registry = ToolRegistry()

    def make() -> None: ...

    with pytest.raises(ContractError, match="no contract of that name was loaded"):
        registry.bind("a")
    registry.load_contracts(written(tmp_path, "tool: a\neffect: x.make\n"))
    registry.bind("a")(make)
    with pytest.raises(ContractError, match="is bound to a function already"):
        registry.bind("a")
    with pytest.raises(ContractError, match="has a contract in the registry already"):
        registry.load_contracts(tmp_path / "contracts.yaml")


# ---- ready contracts ------------------------------------------------------------------------------------------------------


def test_a_ready_contract_with_a_value_of_a_wrong_type_is_refused() -> None:
    wrong: Any = Contract(tool="a", effect=Effect(kind="x.make"), action_class="whatever", lease="soon")  # type: ignore[arg-type]
    with pytest.raises(ContractError) as caught:
        ToolRegistry().effect(wrong)(lambda: None)
    assert {problem.field for problem in caught.value.problems} == {"action_class", "lease"}
    assert ActionClass.COMPENSATABLE in ActionClass
