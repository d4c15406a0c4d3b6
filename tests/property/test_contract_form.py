"""Files say what code says: a contract goes through YAML and JSON unchanged; the JSON Schema allows what the loader takes."""

from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from landed.core.contract import Contract, contract_json
from landed.core.contract_form import contract_of, document_of
from landed.core.contract_schema import contracts_schema
from landed.sdk.contract_files import read_document

_TEXT = st.one_of(st.sampled_from(["yes", "null", "1", "true", "", "~", "a: b", "é\x85"]), st.text(max_size=8))
_NUMBERS = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 10**6).map(float))
VALIDATOR = jsonschema.Draft202012Validator(contracts_schema())


def _of(kind: Any) -> st.SearchStrategy[Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return st.one_of(*map(_of, inner))
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is tuple:
        return st.lists(_of(inner[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(_TEXT, _TEXT, max_size=2)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return st.builds(kind, **{name: _of(one) for name, one in get_type_hints(kind).items()})
    plain = {bool: st.booleans(), int: st.integers(-5, 5), str: _TEXT, NoneType: st.none(), float: _NUMBERS}
    return plain[kind] if kind in plain else st.sampled_from(kind)


contracts: st.SearchStrategy[Contract] = _of(Contract)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("contracts")


@given(contract=contracts)
def test_a_contract_goes_through_a_yaml_and_a_json_file_unchanged(folder: Path, contract: Contract) -> None:
    document = document_of(contract)
    as_yaml, as_json = folder / "one.yaml", folder / "one.json"
    as_yaml.write_text(yaml.safe_dump(document, sort_keys=False))
    as_json.write_bytes(msgspec.json.encode(document))
    for path in (as_yaml, as_json):
        back, problems = contract_of(read_document(path))
        assert back == contract, problems
        assert contract_json(back) == contract_json(contract)


@given(contract=contracts)
def test_the_schema_allows_what_breaks_no_rule(contract: Contract) -> None:
    document = document_of(contract)
    _, problems = contract_of(document)
    wrong = [error.json_path for error in VALIDATOR.iter_errors(document)]
    assert problems or not wrong, wrong


_JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.floats(0, 2), _TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["tool", "kind", "header", "x"]), inner)
    ),
    max_leaves=4,
)


@given(name=st.sampled_from([field.name for field in msgspec.structs.fields(Contract)] + ["nonsense"]), value=_JUNK)
def test_the_schema_refuses_what_has_not_the_form_and_allows_what_is_written_short(name: str, value: Any) -> None:
    """Rules between fields are not the schema's: it is compared with the form alone."""
    document = {"tool": "t", "effect": "x.make", name: value}
    contract, _ = contract_of(document)
    allowed = VALIDATOR.is_valid(document)
    assert not allowed or contract is not None, f"the schema allows what the loader refuses: {document}"


@given(junk=_JUNK)
def test_no_document_is_too_odd_to_be_told_what_is_wrong(junk: Any) -> None:
    contract, problems = contract_of(junk)
    assert contract is None or isinstance(contract, Contract)
    assert contract is not None or problems
