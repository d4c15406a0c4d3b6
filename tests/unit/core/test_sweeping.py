"""What an effect on a provider's list is to the ledger (docs/contracts.md, "Sweeping"): each finding, and what follows."""

from typing import Any

import pytest
from tests.history import GROUP, TENANT, History, contract

from landed.core.events import OutcomeConfirmed, UnmatchedNews
from landed.core.news import About
from landed.core.sweeping import FOLLOWS, Effect, Finding, finding, said
from landed.core.vocabulary import EffectStatus, Source
from landed.wire.ids import with_event_id


def effect(reference: str = "r9", operation_id: str | None = "X", **fields: Any) -> Effect:
    given: dict[str, Any] = {"provider_time_ms": 5, "status": EffectStatus.SETTLED}
    return Effect(reference=reference, operation_id=operation_id, **given | fields)


def about(history: History) -> About:
    return About(route=GROUP, group_id=GROUP, operation=history.op())


def dispatched(**terms: Any) -> History:
    return History().prepare(terms=terms).grant()


def unknown(**terms: Any) -> History:
    return dispatched(**terms).must("outcome_unknown")


def confirmed() -> History:
    return dispatched().must("outcome_confirmed", source="worker", claim_id="k1")


CASES: list[tuple[str, Effect, About | None, Finding]] = [
    ("no mark, no record", effect(operation_id=None), None, Finding.UNMARKED),
    ("a mark, no operation", effect(), None, Finding.UNMATCHED),
    ("its reference is on record", effect("r1"), about(confirmed()), Finding.MATCHED),
    ("another reference than on record", effect("r2"), about(confirmed()), Finding.UNRECORDED),
    ("a doubt that it settles", effect(), about(unknown()), Finding.UNRECORDED),
    ("a call under way", effect(), about(dispatched()), Finding.UNDER_WAY),
    ("not yet final", effect(status=EffectStatus.PENDING), about(unknown()), Finding.MATCHED),
    ("failed: there is no effect", effect(status=EffectStatus.FAILED), about(unknown()), Finding.MATCHED),
    ("removed", effect(status=EffectStatus.REMOVED), about(unknown()), Finding.UNRECORDED),
    ("removed, nobody knows when", effect(status=EffectStatus.REMOVED, provider_time_ms=None), about(unknown()), Finding.MATCHED),
    ("more evidence is wanted than the id", effect(), about(unknown(minimum_evidence=("operation_id", "x"))), Finding.SIMILAR),
    ("erased: its references are digests", effect(), about(confirmed().must("operation_erased")), Finding.MATCHED),
]


@pytest.mark.parametrize(("one", "of", "expected"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_an_effect_on_the_list_is_told_by_its_operation(one: Effect, of: About | None, expected: Finding) -> None:
    assert finding(one, of, tool=contract().tool) is expected


def test_an_operation_of_another_tool_is_only_similar() -> None:
    assert finding(effect(), about(unknown()), tool="another") is Finding.SIMILAR


def test_every_finding_has_a_case() -> None:
    assert {expected for *_, expected in CASES} == set(Finding)
    assert {Finding.UNMATCHED, Finding.UNRECORDED} == FOLLOWS


def test_what_a_sweep_says_is_the_same_event_whenever_it_is_said() -> None:
    """Also when the operation has moved in between: the event does not name what was seen of it."""
    before, after = about(unknown()), about(unknown().must("probe_recorded"))
    first, second = (with_event_id(said(effect(), one, tenant_id=TENANT, tool="refund")) for one in (before, after))
    assert isinstance(first, OutcomeConfirmed)
    assert first == second
    assert (first.source, first.attempt, first.matched_on) == (Source.SWEEP, None, ["operation_id"])
    news = said(effect(), None, tenant_id=TENANT, tool="refund")
    assert isinstance(news, UnmatchedNews)
    assert (news.source, news.operation_id, news.operation_key, news.route) == (Source.SWEEP, None, "X", "news:sweep:refund")


def test_evidence_of_a_sweep_is_taken_by_the_fold() -> None:
    history = unknown()
    fields = said(effect(), about(history), tenant_id=TENANT, tool="refund")
    assert isinstance(fields, OutcomeConfirmed)
    history.must("outcome_confirmed", attempt=None, source="sweep", reference=fields.reference, matched_on=fields.matched_on)
    assert history.op().state == "confirmed"
