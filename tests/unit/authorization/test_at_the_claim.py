"""An inverse is authorized at its claim (docs/semantics.md §5, §8); the ledger in memory decides as a projector does."""

from typing import Any

import msgspec
import pytest

from landed import Confirmed, Ledger, Refused, ToolRegistry, effect
from landed.adapters.authorizing import ask, check
from landed.adapters.memory import ManualClock, MemoryLedger
from landed.core import events as ev
from landed.core.asked import authorized
from landed.core.authorization import AmountLimit, CedarPolicies, Rule, Rules
from landed.core.contract import Compensation, Effect, contract_json
from landed.core.policy import Policies, PolicyError, PolicyValue, policy_json, policy_route
from landed.core.state import Operation
from landed.core.vocabulary import Choice, Decision, State
from landed.sdk.settings import Settings
from landed.wire.ids import with_event_id

ALLOW = Rules(rules=(Rule(id="undo"),))
CEDAR = CedarPolicies(policies='@id("undo") permit(principal == Worker::"agent", action == Action::"booking.undo", resource);')


class Shop:
    """A group with one confirmed booking, which unwinds."""

    def __init__(
        self,
        policy: PolicyValue | None = ALLOW,
        *,
        tenant: str = "acme",
        log: MemoryLedger | None = None,
        tool: str = "book",
        **undo: Any,
    ):
        self.clock = ManualClock()
        self.log = log or MemoryLedger(self.clock)
        self.tenant = tenant
        settings = Settings(bootstrap=None, tenant=tenant, worker="agent", wait=0.2, record_wait=0.2)
        self.ledger = Ledger(settings, self.log, self.log, clock=self.clock, threaded=False)
        self.undone: list[str] = []
        registry = ToolRegistry()

        @registry.effect(
            tool=tool,
            effect=Effect(kind="booking.create"),
            stored_args=("id",),
            reference_field="id",
            receipt_fields=("id",),
            compensation=Compensation(tool="unbook", required_fields=("id",), **{"authorization_action": "booking.undo", **undo}),
        )
        def book(id: str) -> dict[str, Any]:
            return {"id": id}

        @book.inverse
        @registry.effect(tool="unbook", effect=Effect(kind="booking.delete"), max_attempts=3)
        def unbook(id: str, amount: int | None = None) -> dict[str, Any]:
            self.undone.append(id if amount is None else f"{id}: {amount}")
            return {"ok": True}

        self.book, self.unbook = book, unbook
        if policy is not None:
            self.set(policy)

    def set(self, policy: PolicyValue, key: str = "compensation") -> None:
        held = self.log.route(policy_route(key), tenant=self.tenant)
        event = ev.PolicyChanged(
            event_id="",
            tenant_id=self.tenant,
            route=policy_route(key),
            actor="olga",
            seen_version=held.version,
            scope=key,
            old=held.policy,
            new=policy_json(policy),
            who="olga",
            why="test",
        )
        self.log.append(with_event_id(event)).result()

    def booked(self, reference: str = "r-1", operation_id: str = "b-1", group: str = "trip") -> None:
        done = self.ledger.group(group, workflow_type="trip").perform(self.book, id=reference, operation_id=operation_id)
        assert isinstance(done, Confirmed)

    def unwind(self, group: str = "trip", inputs: str | None = None) -> None:
        event = ev.UnwindRequested(
            event_id="",
            tenant_id=self.tenant,
            route=group,
            actor="olga",
            group_id=group,
            reason="card_declined",
            by="olga",
            inputs=inputs,
        )
        self.log.append(with_event_id(event)).result()

    def undo(self, reference: str = "r-1", operation_id: str = "b-1", group: str = "trip", **more: Any) -> Any:
        return self.ledger.group(group, workflow_type="trip").perform(
            self.unbook, id=reference, operation_id=f"compensate:{operation_id}", **more
        )

    def rulings(self) -> list[ev.CompensationAuthorized]:
        return [one for one in self.log.events("compensate:b-1") if isinstance(one, ev.CompensationAuthorized)]

    def state(self, operation_id: str = "b-1") -> str:
        return self.log.state(operation_id, tenant=self.tenant).state


def ready(policy: PolicyValue | None = ALLOW, **undo: Any) -> Shop:
    shop = Shop(policy, **undo)
    shop.booked()
    shop.unwind()
    return shop


def denied(shop: Shop, why: str) -> None:
    """It is refused, recorded with the reason, never performed, and a person has it with the evidence."""
    refused = shop.undo()
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.detail["rule"]) == ("compensation_denied", why)
    ruling = shop.rulings()[-1]
    assert (ruling.decision, ruling.reason) == (Decision.DENY, why)
    assert shop.undone == []
    (handed,) = [one for one in shop.log.events("b-1") if isinstance(one, ev.OperationEscalated)]
    assert handed.reason == "skipped"
    assert msgspec.json.decode(handed.evidence or "{}")["denied"] == why
    assert shop.log.route("trip", tenant="acme").group_state == "needs_human"


@pytest.mark.parametrize("policy", [ALLOW, CEDAR])
def test_an_allowed_inverse_is_authorized_right_before_its_grant_with_what_was_asked(policy: PolicyValue) -> None:
    shop = ready(policy)
    assert isinstance(shop.undo(), Confirmed)
    assert shop.state() == "compensated"
    events = shop.log.events("compensate:b-1")
    at = next(number for number, one in enumerate(events) if isinstance(one, ev.CompensationAuthorized))
    ruling, grant = events[at], events[at + 1]
    assert isinstance(ruling, ev.CompensationAuthorized)
    assert isinstance(grant, ev.DispatchGranted)
    assert (ruling.action, ruling.resource, ruling.policy_version) == ("booking.undo", "r-1", "compensation@1")
    assert (ruling.decision, ruling.reason) == (Decision.ALLOW, "allowed by undo")
    context = msgspec.json.decode(ruling.context)
    asked = {name: context[name] for name in ("workflow_id", "caused_by_action", "forward_status", "requires_human", "inputs")}
    assert asked == {
        "workflow_id": "trip",
        "caused_by_action": "card_declined",
        "forward_status": "succeeded",
        "requires_human": False,
        "inputs": {"id": "r-1", "amount": None},
    }


def test_without_a_policy_nobody_may() -> None:
    denied(ready(None), "no policy says who may perform inverses")


def test_the_policy_at_the_time_of_the_recovery_counts_not_the_one_of_the_forward_call() -> None:
    shop = Shop(ALLOW)
    shop.booked()
    shop.set(Rules(rules=(Rule(id="freeze", effect="deny"),)))
    shop.unwind()
    denied(shop, "denied by freeze")
    assert shop.rulings()[-1].policy_version == "compensation@2"


def test_a_reference_that_is_on_record_for_another_operation_is_denied() -> None:
    shop = Shop(ALLOW)
    shop.booked("r-1")
    other = Shop(ALLOW, tenant="other", log=shop.log)
    other.booked("r-1", operation_id="theirs")
    shop.unwind()
    denied(shop, "the provider's reference belongs to another operation")


def test_a_reference_of_another_tenant_is_denied_whatever_its_tool_and_one_booking_may_have_several_steps() -> None:
    """The log does not know which tools are one provider's: what might be another tenant's is left alone."""
    shop = Shop(ALLOW)
    shop.booked("r-1")
    other = Shop(ALLOW, tenant="other", log=shop.log, tool="book_express")
    other.booked("r-1", operation_id="theirs")
    shop.unwind()
    denied(shop, "the provider's reference belongs to another operation")
    mine = Shop(ALLOW)
    mine.booked("r-1")
    Shop(None, log=mine.log, tool="book_seat").booked("r-1", operation_id="seat", group="other trip")
    mine.unwind()
    assert isinstance(mine.undo(), Confirmed)


def test_an_inverse_that_names_another_effect_than_the_evidence_is_denied() -> None:
    shop = ready()
    refused = shop.undo("r-2")
    assert isinstance(refused, Refused)
    assert refused.detail["rule"] == "the evidence of the forward effect is incomplete"
    assert shop.undone == []


@pytest.mark.parametrize("more", [{}, {"amount": 500}])
def test_an_inverse_that_does_not_take_what_unwind_gave_is_denied_though_no_contract_requires_it(more: dict[str, Any]) -> None:
    """The whole amount would be refunded where a person asked for a part of it."""
    shop = Shop(ALLOW)
    shop.booked()
    shop.unwind(inputs='{"b-1": {"amount": 5}}')
    assert isinstance(shop.undo(**more), Refused)
    assert shop.rulings()[-1].reason == "the evidence of the forward effect is incomplete"
    assert shop.undone == []


def test_an_inverse_that_takes_what_unwind_gave_is_performed_with_it() -> None:
    shop = Shop(ALLOW)
    shop.booked()
    shop.unwind(inputs='{"b-1": {"amount": 5}}')
    assert isinstance(shop.undo(amount=5), Confirmed)
    assert shop.undone == ["r-1: 5"]


def test_after_its_window_an_inverse_is_not_performed() -> None:
    shop = ready(expires_after=60.0)
    shop.clock.advance(61)
    assert isinstance(shop.undo(), Refused)
    assert shop.undone == []
    (handed,) = [one for one in shop.log.events("b-1") if isinstance(one, ev.OperationEscalated)]
    assert (handed.reason, handed.evidence) == ("skipped", '{"why":"expired"}')


def test_a_claim_that_was_made_within_the_window_and_is_decided_after_it_is_denied() -> None:
    shop = ready(expires_after=60.0)
    route = shop.log.route("trip", tenant="acme")
    inverse = Operation(operation_id="compensate:b-1", state=State.PREPARED, tool="unbook", stored_args='{"id":"r-1"}')
    claim = ev.Claim(claim_id="c", request_hash="h", worker="agent", reply_to="r", lease_ms=1, asked_at_ms=0, answer_by_ms=1)
    policies = Policies(values={"compensation": ALLOW}, versions={"compensation": 1})
    contract = shop.unbook.contract
    inverse = msgspec.structs.replace(inverse, contract_text=contract_json(contract))
    confirmed_ms = route.operation("b-1").confirmed_at_ms or 0

    def said(now_ms: int) -> tuple[Decision, str]:
        ruling = authorized(route, inverse, claim, policies, ask, now_ms=now_ms).ruling
        return ruling.decision, ruling.reason

    assert said(confirmed_ms + 59_999) == (Decision.ALLOW, "allowed by undo")
    assert said(confirmed_ms + 60_000) == (Decision.DENY, "the window of the inverse has passed")


def test_what_only_wants_an_approval_is_performed_once_a_reviewer_decides_so() -> None:
    shop = ready(Rules(rules=(Rule(id="signed", approval=True),)))
    denied(shop, "signed: needs an approval")
    task = shop.log.state("b-1", tenant="acme").review
    assert task is not None
    decided = ev.ReviewDecided(
        event_id="",
        tenant_id="acme",
        route="trip",
        operation_id="b-1",
        group_id="trip",
        actor="anna",
        review_id=task.review_id,
        choice=Choice.COMPENSATING,
        reviewer="anna",
        reason="checked",
    )
    shop.log.append(with_event_id(decided)).result()
    assert isinstance(shop.undo(), Confirmed)
    assert shop.undone == ["r-1"]
    assert msgspec.json.decode(shop.rulings()[-1].context)["approved_by"] == "anna"
    assert shop.state() == "compensated"


def test_what_a_person_cannot_allow_comes_back_to_a_person() -> None:
    """The approval was not what was missing: nothing waits for ever, and nothing is performed."""
    shop = ready(Rules(rules=(Rule(id="small", amount=AmountLimit(field="id", at_most=1)),)))
    assert isinstance(shop.undo(), Refused)
    task = shop.log.state("b-1", tenant="acme").review
    assert task is not None
    decided = ev.ReviewDecided(
        event_id="",
        tenant_id="acme",
        route="trip",
        operation_id="b-1",
        group_id="trip",
        actor="anna",
        review_id=task.review_id,
        choice=Choice.COMPENSATING,
        reviewer="anna",
        reason="checked",
    )
    shop.log.append(with_event_id(decided)).result()
    assert shop.state() == "compensating"
    assert isinstance(shop.undo(), Refused)
    assert shop.state() == "escalated"
    assert shop.log.state("b-1", tenant="acme").escalated_for == "inverse_failed"
    assert shop.undone == []


def test_an_inverse_that_no_contract_registered_is_denied_and_a_person_has_the_effect() -> None:
    shop = ready()

    @effect(tool="wipe", effect=Effect(kind="everything.delete"))
    def wipe(id: str) -> dict[str, Any]:
        shop.undone.append(id)
        return {}

    group = shop.ledger.group("trip", workflow_type="trip")
    refused = group.perform(wipe, id="r-1", operation_id="compensate:b-1")
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.detail["rule"]) == ("compensation_denied", "no contract registered this inverse")
    (handed,) = [one for one in shop.log.events("b-1") if isinstance(one, ev.OperationEscalated)]
    assert msgspec.json.decode(handed.evidence or "{}")["denied"] == "no contract registered this inverse"
    assert (shop.undone, shop.log.route("trip", tenant="acme").group_state) == ([], "needs_human")


def test_a_policy_that_its_engine_cannot_take_is_refused_when_it_is_set() -> None:
    with pytest.raises(PolicyError, match="policies"):
        check("compensation", CedarPolicies(policies="permit(principal, action, resource) when { context.nothing };"))
    with pytest.raises(PolicyError, match=r"rules\[0\].id"):
        check("compensation", Rules(rules=(Rule(id=" "),)))
