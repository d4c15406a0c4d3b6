"""What a contract reads in a message, and nothing else of it."""

from typing import Any

import msgspec
import pytest

from landed.core.contract import Contract, Effect, Webhook
from landed_services.intake.reading import at, provider_time_ms, reading

WEBHOOK = Webhook(
    match="data.object.metadata.operation_id",
    reference="data.object.id",
    status="type",
    receipt="data.object",
    order_by="created",
    confirmed_when=("refund.succeeded",),
)
CONTRACT = Contract(
    tool="pay.refund",
    effect=Effect(kind="refund.create"),
    receipt_fields=("amount",),
    reference_pattern=r"re_\w+",
    webhook=WEBHOOK,
)


def message(**changes: Any) -> dict[str, Any]:
    refund = {"id": "re_1", "amount": 12, "metadata": {"operation_id": "op-1"}, "card": "4242"}
    return {"id": "evt_1", "type": "refund.succeeded", "created": 1_700_000_000, "data": {"object": refund | changes}}


def test_only_what_is_declared_is_read() -> None:
    read = reading(CONTRACT, message())
    assert (read.operation_key, read.reference, read.status) == ("op-1", "re_1", "refund.succeeded")
    assert (read.provider_time_ms, read.receipt) == (1_700_000_000_000, '{"amount":12}')
    assert "4242" not in msgspec.json.encode(read).decode()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"id": "javascript:alert(1)"}, "reference"),
        ({"id": ["re_1"]}, "reference"),
        ({"metadata": {"operation_id": "x" * 181}}, "operation_key"),
        ({"metadata": {"operation_id": "policy:x"}}, "operation_key"),
        ({"metadata": {"operation_id": "a\nb"}}, "operation_key"),
        ({"metadata": None}, "operation_key"),
    ],
)
def test_what_has_not_the_declared_form_is_as_if_it_were_not_there(changes: dict[str, Any], field: str) -> None:
    assert getattr(reading(CONTRACT, message(**changes)), field) is None


def test_a_status_with_content_in_it_is_not_recorded() -> None:
    assert reading(CONTRACT, {**message(), "type": "failed: card 4242 of Jane Roe"}).status == "none"


TIMES = [
    (1_700_000_000, 1_700_000_000_000),
    (1_700_000_000.5, 1_700_000_000_500),
    (1_700_000_000_123, 1_700_000_000_123),
    ("1700000000", 1_700_000_000_000),
    ("2023-11-14T22:13:20Z", 1_700_000_000_000),
    ("2023-11-14T23:13:20.250+01:00", 1_700_000_000_250),
    (17, 17_000),
    (True, None), (None, None), ("soon", None), (-1, None), ([1], None),
    (float("inf"), None), (float("nan"), None), (10**40, None),
]  # fmt: skip


@pytest.mark.parametrize(("value", "ms"), TIMES)
def test_the_providers_time_is_read_in_the_forms_that_providers_use(value: object, ms: int | None) -> None:
    assert provider_time_ms(value) == ms


def test_a_path_goes_through_lists_and_ends_where_nothing_is() -> None:
    assert at({"items": [{"id": "a"}, {"id": "b"}]}, "items.1.id") == "b"
    assert at({"items": [1]}, "items.7") is None
    assert at({"a": "text"}, "a.b") is None
    assert at({"a": 1}, "") == {"a": 1}
