"""What follows from a provider's message: judged by the operation's own contract, decided by the fold (semantics.md §3)."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.history import History, contract, entry

from landed.core import events as ev
from landed.core.contract import Webhook
from landed.core.news import About, News, follows, one_of, received, unmatched

TERMS: dict[str, Any] = {
    "webhook": Webhook(
        match="id", status="type", confirmed_when=("paid",), rejected_when=("failed",), reverted_when=("bounced",), order_by="at"
    ),
    "removed_when": ("deleted",),
}


def news(status: str = "paid", *, reference: str | None = "r1", at_ms: int | None = 10, **changes: Any) -> News:
    fields: dict[str, Any] = {"tenant_id": "acme", "endpoint": "psp", "webhook_id": f"{status}-{at_ms}", "tools": ("refund",)}
    return News(**{**fields, "operation_key": "X", "reference": reference, "status": status, "provider_time_ms": at_ms,
                   "digest": "d", "receipt": '{"a":1}', "keep_ms": 1_000, **changes})  # fmt: skip


def about(history: History) -> About:
    return About(route="trip", group_id="trip", operation=history.op())


def take(history: History, said: News) -> str | None:
    """The state after *said* came in; the name of what followed is the last event."""
    for event in (received(said, about(history)), follows(said, about(history))):
        if event is not None:
            history.take(entry(event, at_ms=history.now_ms, offset=len(history.log)))
    return history.op().state


def dispatched() -> History:
    return History().prepare(terms=TERMS).grant()


def test_news_before_the_answer_confirms_and_the_answer_repeats_it() -> None:
    history = dispatched()
    assert take(history, news()) == "confirmed"
    history.must("outcome_confirmed", source="worker", claim_id="k1")
    assert (history.op().marks, history.op().review) == ((), None)


def test_what_follows_names_its_news_and_what_it_was_matched_on() -> None:
    said = follows(news(), about(dispatched()))
    assert isinstance(said, ev.OutcomeConfirmed)
    assert (said.source, said.webhook_id, said.matched_on, said.receipt) == ("webhook", "paid-10", ["operation_id"], '{"a":1}')
    by_reference = follows(news(operation_key=None), about(dispatched().must("outcome_unknown", reference="r1")))
    assert isinstance(by_reference, ev.OutcomeConfirmed)
    assert by_reference.matched_on == ["reference"]


def test_a_failure_while_the_call_runs_waits_for_its_holder() -> None:
    history = dispatched()
    assert follows(news("failed"), about(history)) is None
    history.expire()
    assert take(history, news("failed")) == "rejected"
    assert history.op().error_code == "failed"


@pytest.mark.parametrize("order", [("paid", "failed"), ("failed", "paid")])
def test_the_newest_news_counts_whatever_order_it_came_in(order: tuple[str, str]) -> None:
    at_ms = {"failed": 65, "paid": 66}
    history = dispatched().expire()
    for status in order:
        take(history, news(status, at_ms=at_ms[status]))
    op = history.op()
    if order == ("paid", "failed"):
        assert (op.state, op.marks) == ("confirmed", ())
    else:
        # The failure came first and was true then; the effect that follows is late.
        assert (op.state, op.marks) == ("rejected", ("late_effect",))


def test_an_older_message_that_overtook_the_newer_one_in_the_intake_is_refused_by_the_fold() -> None:
    """Two intakes at the same moment: what one has seen of the operation is older than the log."""
    history = dispatched().expire()
    older = follows(news("failed", at_ms=65), about(history))
    assert older is not None
    take(history, news("paid", at_ms=66))
    assert follows(news("failed", at_ms=65), about(history)) is None, "whoever sees the newer one says nothing"
    refused = history.take(entry(older, at_ms=history.now_ms, offset=9))
    assert (refused.accepted, refused.reason, history.op().state) == (False, "older_news", "confirmed")


def test_older_news_about_another_reference_is_no_history_of_this_one() -> None:
    history = dispatched()
    take(history, news(at_ms=66))
    take(history, news(at_ms=65, reference="r2", webhook_id="other"))
    assert history.op().marks == ("duplicate_effect",)


def test_delivered_and_then_bounced_is_shown_as_reverted() -> None:
    history = dispatched()
    take(history, news())
    assert take(history, news("bounced", at_ms=11)) == "escalated"
    assert history.op().escalated_for == "effect_reverted"


def test_a_reversal_of_what_is_not_confirmed_waits() -> None:
    history = dispatched()
    assert follows(news("bounced", at_ms=11), about(history)) is None


def test_a_failure_of_the_confirmed_reference_is_a_contradiction() -> None:
    history = dispatched()
    take(history, news())
    assert take(history, news("failed", at_ms=11)) == "confirmed"
    assert history.op().marks == ("contradiction",)


def test_what_somebody_else_removed_is_confirmed_with_the_time() -> None:
    history = dispatched().expire()
    assert take(history, news("deleted")) == "confirmed"
    assert history.op().removed_at_ms == 10
    assert follows(news("deleted", at_ms=None), about(dispatched().expire())) is None


def test_a_failure_names_an_attempt_only_where_it_is_certain() -> None:
    """Said of the wrong attempt it would allow another one while the effect exists."""
    twice = dispatched().expire().absent().grant().expire()
    said = follows(news("failed"), about(twice))
    assert isinstance(said, ev.OutcomeRejected)
    assert said.attempt is None
    assert take(twice, news("failed")) == "unknown"
    known = dispatched().expire().absent().grant().must("outcome_unknown", attempt=2, claim_id="k2", reference="r1")
    assert take(known, news("failed")) == "rejected"


def test_a_word_that_the_contract_does_not_name_is_recorded_and_nothing_follows() -> None:
    history = dispatched()
    assert take(history, news("on_hold")) == "dispatched"
    assert received(news("on_hold"), about(history)).keep_ms == 0
    assert received(news("failed"), about(history)).keep_ms == 1_000


def test_the_contract_that_counts_is_the_one_on_the_log() -> None:
    plain = History().prepare().grant()
    assert follows(news(), about(plain)) is None


def test_the_same_news_gives_the_same_events_whoever_says_it() -> None:
    history = dispatched().expire()
    first = (received(news(), about(history)), follows(news(), about(history)))
    history.must("agent_statement")
    assert (received(news(), about(history)), follows(news(), about(history))) == first
    assert unmatched(news()) == unmatched(news())
    ids = {one.event_id for one in (*first, unmatched(news()), unmatched(news(tenant_id="b"))) if one is not None}
    assert len(ids) == 4


def test_news_names_an_operation_by_its_id_else_by_a_reference_and_only_of_its_endpoints_tools() -> None:
    known = about(dispatched().must("outcome_unknown", reference="r1"))
    assert one_of(news(reference=None), [known]) == known
    assert one_of(news(operation_key=None), [known]) == known
    assert one_of(news(operation_key=None, reference="r2"), [known]) is None
    assert one_of(news(), [known, known]) == known, "found by its id and by its reference"
    other = replace(known, route="another")
    assert one_of(news(operation_key=None), [known, other]) is None, "of several nobody knows which"
    assert one_of(news(tools=("mail.send",)), [known]) is None
    assert one_of(news(), [about(History())]) is None, "an id alone is no operation"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"match": ""}, "webhook.match"),
        ({"match": "a..b"}, "webhook.match"),
        ({"status": None}, "webhook.status"),
        ({"rejected_when": ("paid",)}, "webhook"),
        ({"keep_unmatched": -1.0}, "webhook.keep_unmatched"),
    ],
)
def test_a_webhook_that_breaks_a_rule_is_told(changes: dict[str, Any], field: str) -> None:
    from landed.core.contract_rules import problems

    terms = replace(TERMS["webhook"], **changes)
    assert field in [one.field for one in problems(contract(webhook=terms))]
