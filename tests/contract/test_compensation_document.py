"""docs/compensation.md is tried: its commands parse, its policies are taken, its example runs, its tables name what there is."""

import re
import shlex
from pathlib import Path

import msgspec

from landed import Found, Ledger
from landed.adapters.authorizing import check
from landed.core.authorization import Rule
from landed.core.contract import Compensation
from landed.core.policy import parsed
from landed_services.cli._app import build

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "compensation.md").read_text()


def test_each_command_is_one_that_there_is_and_each_policy_is_taken() -> None:
    lines = re.findall(r"^\$ landed (.*)$", PAGE, re.M)
    set_ = [words for line in lines if (words := shlex.split(line))[:2] == ["policies", "set"]]
    for line in lines:
        build().parse_args(shlex.split(line), exit_on_error=False, print_error=False)
    for words in set_:
        check(words[2], parsed(words[2], words[3]))
    assert {words[2] for words in set_} == {"automatic", "compensation"}
    assert {words[3].partition('"engine": ')[2][1:6] for words in set_ if words[2] == "compensation"} == {"rules", "cedar"}


def test_the_tables_name_every_field() -> None:
    def names(title: str) -> set[str]:
        table = PAGE.split(f"| {title} | meaning |")[1].split("\n\n")[0]
        return {name for first in re.findall(r"^\| (`[^|]*) \|", table, re.M) for name in re.findall(r"`(\w+)`", first)}

    fields = {field.name for field in msgspec.structs.fields(Compensation)} - {"gone_only_after_own_try"}
    assert names("field of `compensation`") == fields
    assert names("field of a rule") == {field.name for field in msgspec.structs.fields(Rule)}


def test_the_example_is_undone_once_a_policy_allows_it() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
    names: dict[str, object] = {"__name__": "example", "Found": Found}
    exec(compile(blocks[0], "docs/compensation.md", "exec"), names)
    exec(compile("from landed import Absent\n" + blocks[1], "docs/compensation.md", "exec"), names)
    with Ledger.connect("memory://", tenant="acme") as ledger:
        names["ledger"] = ledger
        ledger.group("trip-17", workflow_type="trip").perform(
            names["book_hotel"],  # type: ignore[arg-type]
            operation_id="trip-17:hotel",
            city="Oslo",
        )
        exec(compile(blocks[2], "docs/compensation.md", "exec"), names)
        refused = eval(blocks[3].strip(), names)
        assert refused.detail["rule"] == "no policy says who may perform inverses"
    assert names["bookings"] == {"h-1": "Oslo"}
