"""A notifier killed before and after it told a receiver: nothing is lost, and what is told again has the same id."""

import time

import pytest
from tests.receiving import SECRET, receiving

from landed import ToolRegistry
from landed.adapters.postgres import connect

from .conftest import Chaos

NOTIFIER_POINTS = ["notifier.before_send", "notifier.sent"]


@pytest.mark.parametrize("point", NOTIFIER_POINTS)
def test_a_notifier_killed_at_any_point_leaves_the_telling_to_the_next_under_the_same_id(chaos: Chaos, point: str) -> None:
    chaos.projector()
    chaos.reconciler(ToolRegistry())
    with receiving() as server:
        given = {"url": server.url, "secret": SECRET}
        with chaos.process("notifier", point=point, **given) as first:
            told = "SELECT count(*) FROM receivers"
            wait_for(chaos, told, (1,))
            chaos.ledger().perform(chaos.tools.named("pay.unanswered"), operation_id="op-1")
            assert first.wait(60) == -9, "it was not killed at the point"
        with chaos.process("notifier", **given):
            wait_for(chaos, "SELECT state FROM notifications", ("delivered",))
        assert len({(one.webhook_id, one.body) for one in server.deliveries}) == 1
        assert len(server.deliveries) == (2 if point == "notifier.sent" else 1)
    with connect(chaos.view) as connection:
        tries = connection.execute("SELECT number, result FROM notification_attempts ORDER BY number").fetchall()
    assert tries == [(1, None), (2, "204")], "a try whose end nobody knows is shown as such"


def wait_for(chaos: Chaos, query: str, row: tuple[object, ...]) -> None:
    deadline = time.monotonic() + 60
    with connect(chaos.view) as connection:
        while (found := connection.execute(query).fetchone()) != row:  # type: ignore[call-overload]
            assert time.monotonic() < deadline, f"{query}: {found}"
            time.sleep(0.05)
