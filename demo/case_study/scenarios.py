"""The four parts of the case study. Each checks what the ledger says against the provider's own records."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from demo.case_study import tools
from demo.case_study.scene import AMOUNT, CARD, DECLINED_CARD, Scene, switch
from landed import Confirmed, Refused, Rejected, Result, Unknown
from landed.core.events import DispatchGranted
from landed.core.state import Route
from landed.testing.fault_proxy import CommitThenDrop

BOOKED = ["flight", "hotel", "seat", "car"]
CANCELLED = ["cancel car", "cancel seat", "cancel hotel", "cancel flight"]
CALLERS, CEILING = 100, 20


def declined(scene: Scene) -> None:
    """The card is declined, so the agent itself takes back what it booked, by the plan."""
    say, check = scene.screen.say, scene.screen.check
    scene.books(*BOOKED)
    paid = scene.pays(DECLINED_CARD)
    say(f"charge_card: {_short(paid)}")
    check(
        "the payment", (type(paid).__name__, paid.reason if isinstance(paid, Rejected) else None), ("Rejected", "card_declined")
    )
    scene.group.unwind("card_declined")
    scene.until("the group unwinds", _is("unwinding"))
    late = scene.group.perform(scene.tool("book_hotel"), operation_id=scene.id("hotel-2"), trip=scene.name)
    check("one more booking now", _reason(late), "group_unwinding")
    scene.shows("plan", scene.name)
    plan = scene.plan()
    check("the plan", scene.steps_of(plan), ["car", "seat", "hotel", "flight"])
    early = _undo(scene, plan["steps"][-1])
    check("the last inverse first", _reason(early), "not_due")
    first, *others = plan["steps"]
    _two_callers(scene, first)
    for step in others:
        done = _undo(scene, step)
        say(f"{step['suggested_idempotency_key']}: {_short(done)}")
        check(step["suggested_idempotency_key"], type(done).__name__, "Confirmed")
    scene.until("the group is unwound", _is("unwound"))
    check("states", scene.states(*BOOKED), dict.fromkeys(BOOKED, "compensated"))
    again = _undo(scene, first)
    check("the first inverse again, repeated", getattr(again, "repeated", None), True)
    scene.provider_has([*BOOKED, *CANCELLED])


def _two_callers(scene: Scene, step: dict[str, Any]) -> None:
    """The first caller is granted the inverse; while its call is under way, a second one asks for the same."""
    say, check = scene.screen.say, scene.screen.check
    name, tool = step["suggested_idempotency_key"], scene.tool(step["compensation"]["tool"])
    switch(scene.stage, "cancellations", on=False)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(_undo, scene, step)
        try:
            scene.until(f"{name} is under way", lambda route: route.operation(name).state == "dispatched", timeout_s=10.0)
            group = scene.another("agent-2").group(scene.name, workflow_type="trip")
            second = group.perform(tool, operation_id=name, wait=5.0, **_inputs(scene, step))
        finally:
            switch(scene.stage, "cancellations", on=True)
    say(f"first caller: {_short(first.result())}; second caller: {_short(second)}")
    granted = [one for one in scene.stage.entries(name) if isinstance(one.event, DispatchGranted)]
    check(f"{name}, times granted", len(granted), 1)
    check(f"{name}, second caller", _reason(second), "in_flight")
    check(f"{name}, first caller", type(first.result()).__name__, "Confirmed")


def unresolved(scene: Scene) -> None:
    """The answer of the payment is lost, so nothing is undone until it is known whether it was made."""
    say, check = scene.screen.say, scene.screen.check
    scene.books(*BOOKED)
    switch(scene.stage, "look-ups", on=False)
    say("the provider answers no questions about operations for now")
    scene.stage.proxy.arm(CommitThenDrop(), method="POST", containing=scene.id("payment").encode())
    paid = scene.pays(CARD)
    say(f"charge_card: {_short(paid)}")
    check("the payment", type(paid).__name__, "Unknown")
    scene.group.unwind("payment_timeout")
    scene.until("the group unwinds", _is("unwinding"))
    scene.shows("plan", scene.name)
    plan = scene.plan()
    check("the plan says STOP", plan["next_step"].startswith("STOP"), True)
    check("its steps", scene.steps_of(plan), [])
    check("because of", [one["operation_id"] for one in plan["unresolved"]], [scene.id("payment")])
    scene.provider_has([*BOOKED, "charge"])
    switch(scene.stage, "look-ups", on=True)
    say("the provider answers again")
    scene.until("the reconciler found the payment", lambda route: route.operation(scene.id("payment")).state == "confirmed")
    scene.shows("plan", scene.name)
    check("the plan", scene.steps_of(scene.plan()), ["payment", "car", "seat", "hotel", "flight"])
    scene.policy("automatic", ["refund_card", *(f"cancel_{kind}" for kind in BOOKED)], "each can be looked up")
    scene.until("the compensator has unwound the group", _is("unwound"))
    check("states", scene.states(*BOOKED, "payment"), dict.fromkeys([*BOOKED, "payment"], "compensated"))
    scene.provider_has([*BOOKED, "charge", "refund", *CANCELLED])


def irreversible(scene: Scene) -> None:
    """Nothing takes back an email: a person decides about it before what it depends on is undone."""
    say, check = scene.screen.say, scene.screen.check
    scene.policy("automatic", [f"cancel_{kind}" for kind in BOOKED], "each can be looked up")
    scene.books("flight", "hotel", "email", "seat", "car")
    check("the payment", type(scene.pays(DECLINED_CARD)).__name__, "Rejected")
    scene.until("the view has it", lambda route: route.operation(scene.id("payment")).state == "rejected")
    plan = scene.plan()
    check("before anything starts the plan lists", [one["operation_id"] for one in plan["irreversible"]], [scene.id("email")])
    check("the plan", scene.steps_of(plan), ["car", "seat", "email", "hotel", "flight"])
    scene.group.unwind("card_declined")
    scene.until("a person is needed", _is("needs_human"))
    scene.until("what came after the email is undone", lambda route: route.operation(scene.id("seat")).state == "compensated")
    scene.shows("show", "group", scene.name)
    check("states", scene.states("flight", "hotel", "email"), {"flight": "confirmed", "hotel": "confirmed", "email": "escalated"})
    scene.provider_has(["flight", "hotel", "email", "seat", "car", "cancel car", "cancel seat"])
    said = "the traveller was told by phone"
    (task,) = scene.reads("reviews", "list")
    decided = scene.reads("reviews", "decide", task["id"], "kept", "--reason", said, "--by", "anna", "--yes")
    say(f"anna decides about {decided['operation_id']}: {decided['choice']}, since {said}")
    scene.until("the rest is undone", _is("unwound"))
    check("states", scene.states("flight", "hotel", "seat", "car"), dict.fromkeys(BOOKED, "compensated"))
    scene.provider_has(["flight", "hotel", "email", "seat", "car", *CANCELLED])


def runaway(scene: Scene) -> None:
    """An agent that loops charges a hundred times at once."""
    say, check = scene.screen.say, scene.screen.check
    scene.policy("ceiling:charge.create", {"surge_per_hour": CEILING}, "a trip has one charge")

    def charge(number: int) -> Result:
        name = scene.id(f"charge-{number}")
        return scene.ledger.perform(tools.charge_card, operation_id=name, trip=scene.name, amount=AMOUNT, card=CARD)

    with ThreadPoolExecutor(CALLERS) as pool:
        results = list(pool.map(charge, range(CALLERS)))
    refused = [one for one in results if isinstance(one, Refused)]
    got = Counter(_reason(one) or type(one).__name__ for one in results)
    say(f"{CALLERS} charges at once: {dict(got)}")
    check("results", dict(sorted(got.items())), {"Confirmed": CEILING, "surge_exceeded": CALLERS - CEILING})
    breakers = {one.detail.get("breaker", "none") for one in refused}
    check("breakers that came with the refusals", len(breakers), 1)
    for text in breakers:
        say(f"breaker: {text}")
        said = json.loads(text) if text != "none" else {}
        shown = {name: said.get(name) for name in ("effect_type", "state", "action", "observed", "threshold")}
        expected = {"effect_type": "charge.create", "state": "open", "action": "deny", "observed": CEILING + 1}
        check("it says", shown, {**expected, "threshold": CEILING})
    scene.shows("breakers", "list")
    records = scene.records()
    check("charges at the provider", len(records), CEILING)
    confirmed = {one.reference for one in results if isinstance(one, Confirmed)}
    check("each has its receipt", confirmed == {one["id"] for one in records}, True)


# ---- what is read off -----------------------------------------------------------------------------------------------------


def _undo(scene: Scene, step: dict[str, Any]) -> Result:
    tool = scene.tool(step["compensation"]["tool"])
    return scene.group.perform(tool, operation_id=step["suggested_idempotency_key"], **_inputs(scene, step))


def _inputs(scene: Scene, step: dict[str, Any]) -> dict[str, Any]:
    """What the inverse needs is on record with the effect: the provider's reference."""
    return {"id": scene.route().operation(step["operation_id"]).references[0].value}


def _is(state: str) -> Any:
    def holds(route: Route) -> bool:
        return route.group_state == state

    return holds


def _reason(result: object) -> str | None:
    return str(result.reason) if isinstance(result, Refused | Unknown) else None


def _short(result: object) -> str:
    match result:
        case Confirmed():
            return f"Confirmed, {result.reference}"
        case Refused() | Unknown() | Rejected():
            return f"{type(result).__name__} ({result.reason})"
        case _:
            return repr(result)
