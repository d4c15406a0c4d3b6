"""Cases as values: a file is read, checked against the schema word by word, and taken apart into steps and rules.

Nothing that the schema does not know gets past here; what is wrong is told with the file, the case and the field.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec

from landed.core.errors import LandedError

_RANGES: Final = ("ops", "depends_on", "lost_ops", "commits_for")
"""Fields that hold names of operations, or ranges of them."""
_RANGE: Final = re.compile(r"([A-Za-z]+)(\d*)\.\.([A-Za-z]+)(\d*)")
_NAMES_MAX: Final = 100_000
"""Names that one range may stand for: a slip of the pen must not fill the memory."""


class CasesError(LandedError, ValueError):
    """A file that is no file of cases: says which file, case and field, and the rule."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step: who does what, and when. `fields` holds the other words of the step."""

    at: float
    actor: str
    do: str
    fields: Mapping[str, Any]

    def get(self, name: str, default: Any = None) -> Any:
        return self.fields.get(name, default)

    @property
    def ops(self) -> tuple[str, ...]:
        """Names of the operations that the step speaks of, ranges expanded."""
        named = self.fields.get("ops")
        if named is not None:
            return tuple(name for one in named for name in expanded(one))
        op = self.fields.get("op")
        return () if op is None else (op,)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario."""

    id: str
    title: str
    kind: str
    contracts: Mapping[str, Mapping[str, Any]]
    rules: tuple[Mapping[str, Any], ...]
    steps: tuple[Step, ...]
    setting: Mapping[str, Any]
    exact: bool
    """Whether states and counts can be compared as they stand."""
    states: Mapping[str, Any]
    groups: Mapping[str, str]
    effects: Mapping[str, Any]
    facts: tuple[str, ...]
    must_not: tuple[str, ...]


def expanded(name: str) -> tuple[str, ...]:
    """Names of a range: `D1..D400`, `A..D`; a name alone stands for itself."""
    match = _RANGE.fullmatch(name)
    if match is None:
        return (name,)
    head, first, tail, last = match.groups()
    if first and last and head == tail and int(first) <= int(last):
        if int(last) - int(first) >= _NAMES_MAX:
            raise CasesError(f"{name!r} names more than {_NAMES_MAX} operations")
        return tuple(f"{head}{number}" for number in range(int(first), int(last) + 1))
    if not first and not last and len(head) == len(tail) == 1 and head <= tail:
        return tuple(chr(code) for code in range(ord(head), ord(tail) + 1))
    raise CasesError(f"{name!r} is no range of names")


def arguments_in(text: str) -> dict[str, Any]:
    """Arguments that a case gives as JSON text. What JSON can say and a hash cannot hold is for the product to refuse.

    Raises:
        CasesError: *text* is not JSON, or no object.
    """
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CasesError(f"is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise CasesError("is not a JSON object")
    return found


@lru_cache(maxsize=1)
def schema() -> dict[str, Any]:
    """The JSON Schema of a file of cases, as it ships with the package."""
    found: dict[str, Any] = json.loads(files(__package__).joinpath("cases.schema.json").read_text())
    return found


def load(path: Path) -> tuple[Case, ...]:
    """The cases of the file at *path*, in its order.

    Raises:
        CasesError: the file cannot be read, or a word in it is unknown; names file, case and field.
    """
    yaml = _needed("yaml")
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, UnicodeDecodeError) as error:
        raise CasesError(f"{path}: cannot be read ({type(error).__name__})") from error
    except yaml.YAMLError as error:
        raise CasesError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    return cases_of(document, str(path))


def cases_of(document: Any, name: str) -> tuple[Case, ...]:
    """The cases of a decoded *document*; *name* stands in messages. Raises as `load` does."""
    problems = list(_problems(document, name)) or list(_unsayable(document, name))
    if problems:
        raise CasesError("\n".join(problems))
    made = tuple(_case(one) for one in document["cases"])
    problems = [f"{name}: {case.id}: {problem}" for case in made for problem in (*_bad_ranges(case), *_bad_texts(case))]
    if problems:
        raise CasesError("\n".join(problems))
    twice = {one.id for one in made if sum(other.id == one.id for other in made) > 1}
    if twice:
        raise CasesError(f"{name}: {', '.join(sorted(twice))}: id: is given twice")
    return made


def _problems(document: Any, name: str) -> Iterator[str]:
    if document is None:
        yield f"{name}: the file is empty; it needs `format: 2` and `cases:`"
        return
    jsonschema = _needed("jsonschema")
    for error in jsonschema.Draft202012Validator(schema()).iter_errors(document):
        path = list(error.absolute_path)
        where = name
        if len(path) >= 2 and path[0] == "cases":
            case = document["cases"][path[1]]
            where += f": {case.get('id', f'case {path[1] + 1}') if isinstance(case, dict) else f'case {path[1] + 1}'}"
            path = path[2:]
        field = ".".join(str(part) for part in path) or "the whole"
        yield f"{where}: {field}: {_deepest(error)}"


def _unsayable(document: Any, name: str) -> Iterator[str]:
    """What YAML can say and the schema cannot see: names that are no text, and times without end."""
    for case in document["cases"]:
        for where, problem in _unsaid(case, ()):
            yield f"{name}: {case['id']}: {'.'.join(where)}: {problem}"


def _unsaid(value: Any, where: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    match value:
        case dict():
            for key, one in value.items():
                if not isinstance(key, str):
                    yield (*where, str(key)), "a name must be text: quote it"
                yield from _unsaid(one, (*where, str(key)))
        case list():
            for number, one in enumerate(value):
                yield from _unsaid(one, (*where, str(number)))
        case float() if not math.isfinite(value) and not {"args", "value"} & set(where):
            yield where, "must be a finite number"


def _bad_texts(case: Case) -> Iterator[str]:
    for number, step in enumerate(case.steps):
        if "args_text" in step.fields:
            try:
                arguments_in(step.fields["args_text"])
            except CasesError as error:
                yield f"steps.{number}.args_text: {error}"


def _bad_ranges(case: Case) -> Iterator[str]:
    named = [(f"steps.{number}", step.fields) for number, step in enumerate(case.steps)]
    named += [(f"provider_behaviour.{number}", rule) for number, rule in enumerate(case.rules)]
    ranges = [(f"{where}.{field}", one) for where, said in named for field in _RANGES for one in said.get(field, ())]
    ranges += [(f"expected_final_state.{one}", one) for one in case.states if case.exact]
    for where, one in ranges:
        try:
            expanded(one)
        except CasesError as error:
            yield f"{where}: {error}"


def _deepest(error: Any) -> str:
    """What is wrong in a few words; of alternatives each one's message."""
    text = " or ".join(dict.fromkeys(str(one.message) for one in error.context)) or str(error.message)
    return text if len(text) <= 300 else f"breaks the rule {error.validator!r} of the schema"


def _case(case: Mapping[str, Any]) -> Case:
    steps = tuple(
        Step(
            at=float(step["at"]),
            actor=step["actor"],
            do=step["do"],
            fields={key: value for key, value in step.items() if key not in ("at", "actor", "do")},
        )
        for step in case["steps"]
    )
    return Case(
        id=case["id"],
        title=case["title"],
        kind=case["kind"],
        contracts=case["tool_contract"],
        rules=tuple(case["provider_behaviour"]),
        steps=steps,
        setting=case.get("setting", {}),
        exact=case["outcome_form"] == "exact",
        states=case["expected_final_state"],
        groups=case.get("expected_group_state", {}),
        effects=case["expected_provider_effects"],
        facts=tuple(case["expected_operator_facts"]),
        must_not=tuple(case["must_not"]),
    )


def _needed(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise CasesError(f"{module} is needed to read cases: pip install 'landed[cases]'") from None
