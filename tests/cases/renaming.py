"""The same cases under other names: ids, titles, tools, operations, groups and workflows, all at random."""

import random
import re
from typing import Any

_RANGE = re.compile(r"([A-Za-z]+)(\d*)\.\.([A-Za-z]+)(\d*)")
_NAME = re.compile(r"([A-Za-z]+)(\d*)")
_OPS = ("ops", "commits_for", "depends_on", "lost_ops")
_ONE_OP = ("op", "replaces", "cause")
_TOOLS = ("tool", "probe", "verify", "read", "counts_as")


class Renamed:
    """One case with new names, told by *seed* alone."""

    def __init__(self, case: dict[str, Any], seed: int) -> None:
        self._random = random.Random(f"{seed} {case['id']}")
        self._given: dict[str, str] = {}
        self.document = self._value(case)
        self.document["id"] = f"C{self._random.randrange(10_000, 99_999)}"
        self.document["title"] = self._word()

    def _word(self) -> str:
        return "".join(self._random.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(8))

    def _new(self, kind: str, name: str) -> str:
        return self._given.setdefault(f"{kind} {name}", self._word())

    def op(self, name: str) -> str:
        if name.startswith("compensate:"):
            return "compensate:" + self.op(name.removeprefix("compensate:"))
        match = _RANGE.fullmatch(name)
        if match is not None and not match[2]:  # letters: each is a name of its own, so the range is one of numbers now
            return f"{self._new('letter', 'all')}{ord(match[1])}..{self._new('letter', 'all')}{ord(match[3])}"
        if match is not None:
            return f"{self._new('op', match[1])}{match[2]}..{self._new('op', match[1])}{match[4]}"
        found = _NAME.fullmatch(name)
        if found is None:
            return name
        if len(name) == 1:
            return f"{self._new('letter', 'all')}{ord(name)}"
        return self._new("op", found[1]) + found[2]

    def tool(self, name: str) -> str:
        if not re.fullmatch(r"[a-z_]+\.[a-z_]+", name):
            return name
        return f"{self._new('tool', name)}.{self._new('verb', name)}"

    def _value(self, case: dict[str, Any]) -> dict[str, Any]:
        return {
            **case,
            "tool_contract": {self.tool(tool): self._fields(said) for tool, said in case["tool_contract"].items()},
            "provider_behaviour": [self._fields(rule) for rule in case["provider_behaviour"]],
            "steps": [self._fields(step) for step in case["steps"]],
            "expected_final_state": {self._op_if_name(name): said for name, said in case["expected_final_state"].items()},
            "expected_provider_effects": {self.tool(tool): said for tool, said in case["expected_provider_effects"].items()},
            **(
                {"expected_group_state": {self._group(name): said for name, said in case["expected_group_state"].items()}}
                if "expected_group_state" in case
                else {}
            ),
        }

    def _op_if_name(self, name: str) -> str:
        return self.op(name) if _NAME.fullmatch(name) or _RANGE.fullmatch(name) else name

    def _group(self, name: str) -> str:
        return self.op(name) if len(name) == 1 and name.isupper() else self._new("group", name)

    def _fields(self, said: dict[str, Any]) -> dict[str, Any]:
        return {name: self._field(name, value) for name, value in said.items()}

    def _field(self, name: str, value: Any) -> Any:
        if name in _OPS and all(isinstance(one, str) for one in value):
            return [self._op_if_name(one) for one in value]
        if name in _ONE_OP:
            return self.op(value)
        if name in _TOOLS and isinstance(value, str):
            return self.tool(value)
        match name:
            case "undo":
                return self.tool(value) if isinstance(value, str) else [self.tool(one) for one in value]
            case "undo_requires":
                return self._fields(value)
            case "also":
                return {self.tool(tool): count for tool, count in value.items()}
            case "items":
                return {self.op(item): said for item, said in value.items()}
            case "group" | "workflow" | "parent":
                return self._group(value)
            case _:
                return value
