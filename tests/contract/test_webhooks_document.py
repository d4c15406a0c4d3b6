"""What docs/webhooks.md shows is what the product takes: settings, contract, names and code."""

import tomllib
import typing
from pathlib import Path

import msgspec

from landed.core.contract import Contract, Effect, Webhook
from landed.core.contract_rules import problems
from landed_services.intake import Why, endpoints_from
from landed_services.notifier.receivers import KINDS, receivers_from

DOCUMENT = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text("utf-8")
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"


def blocks(language: str) -> list[str]:
    return [part.partition("\n```")[0] for part in DOCUMENT.split(f"```{language}\n")[1:]]


def rows(heading: str) -> set[str]:
    """First cells of the table under *heading*, names only."""
    table = DOCUMENT.split(heading)[1].split("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[1:] if line.startswith("|")]
    return {name.strip().strip("`") for cell in cells for name in cell.split(",")}


def test_the_settings_are_taken() -> None:
    written = [tomllib.loads(block) for block in blocks("toml")]
    environment = {"ACME_STRIPE_SECRET": SECRET, "ACME_OPS_SECRET": SECRET}
    assert list(endpoints_from(written[0]["endpoint"], environment)) == ["stripe-acme"]
    (receiver,) = receivers_from(written[1]["receiver"], environment)
    assert receiver.kinds == KINDS
    assert receiver.aged_ms == (4 * 3_600_000, 24 * 3_600_000)


def test_the_code_runs_and_the_contract_is_valid() -> None:
    names: dict[str, typing.Any] = {}
    for block in blocks("python"):
        exec(block, names)
    webhook = names["WEBHOOK"]
    assert isinstance(webhook, Webhook)
    assert problems(Contract(tool="pay.refund", effect=Effect(kind="refund.create"), webhook=webhook)) == ()
    assert callable(names["intake_of"])


def test_the_tables_name_everything_and_nothing_else() -> None:
    assert rows("| field | meaning |\n") == {field.name for field in msgspec.structs.fields(Webhook)}
    assert rows("| refused with | why | what to do |\n") == set(Why)
    assert rows("| it tells | when |\n") == set(KINDS)
