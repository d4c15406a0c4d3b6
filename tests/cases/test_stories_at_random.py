"""Stories that nobody wrote: whatever words follow each other, nothing raises, and the guarantees of every case hold."""

import random
from typing import Any

import pytest

from landed.testing.cases import cases_of, run

SEEDS = range(0, 300, 10)
TOOLS = ("a.do", "b.do", "c.do")
CALLS = ("ok", "pending", "error", "none", "lost", "malformed", "raised")
READS = ("found", "lookalike", "not_found", "pending", "error", "unavailable", "truth", "none", "lost", "malformed")
DECLARED: tuple[dict[str, Any], ...] = (
    {"key": "honoured"},
    {"key": "client_id", "exists_errors": ["there"]},
    {"key": "honoured", "key_ttl_s": 20},
    {"absence_window_s": 5},
    {"max_in_flight_s": 20},
    {"replay_safe": True},
    {"replay_safe": False},
    {"irreversible": True},
    {"no_effect_errors": ["no"], "retry_rejected": True},
    {"lease_s": 5},
    {"max_attempts": 2},
    {"max_probes": 2},
    {"deadline_s": 20},
    {"needs_approval": True},
    {"ceilings": [{"limit": 2, "per_s": 60}]},
    {"resource_lock": ["res"]},
    {"success_when": {"status": "paid"}},
    {"removed_when": ["gone"]},
)


def story(seed: int) -> dict[str, Any]:
    """A case of free words; what it expects is free text."""
    chance = random.Random(seed)
    contracts: dict[str, Any] = {}
    for tool in TOOLS:
        contract = {"lookup": "by_id", "probe": f"{tool[0]}.find"} if chance.random() < 0.6 else {}
        contract |= {"undo": f"{tool[0]}.undo"} if chance.random() < 0.5 else {}
        for declared in chance.sample(DECLARED, 3):
            contract |= declared
        contracts[tool] = contract
    rules = [_rule(chance) for _ in range(chance.randint(0, 8))]
    steps: list[dict[str, Any]] = []
    at = 0.0
    for _ in range(chance.randint(3, 14)):
        at = round(at + chance.choice((0, 0.5, 1, 3, 9, 20)), 2)
        steps.append({"at": at, **_step(chance, at, steps)})
    return {
        "id": f"C{1000 + seed}",
        "source": "random",
        "title": "random",
        "kind": "log",
        "story": "random",
        "tool_contract": contracts,
        "provider_behaviour": rules,
        "steps": steps,
        "outcome_form": "described",
        "expected_final_state": {"all": "free text"},
        "expected_provider_effects": {},
        "expected_operator_facts": ["free text"],
        "must_not": ["free text"],
    }


def _rule(chance: random.Random) -> dict[str, Any]:
    tool = chance.choice(TOOLS)
    kind = chance.choice(("do", "do", "find", "undo"))
    rule: dict[str, Any] = {"tool": f"{tool[0]}.{kind}", "answer": chance.choice(READS if kind == "find" else CALLS)}
    rule |= {"differs": ["id"], "sent": chance.random() < 0.5, "code": chance.choice(("no", "there", "other"))}
    extras: tuple[dict[str, Any], ...] = (
        {"call": chance.randint(1, 3)},
        {"until": 20},
        {"answer_after_s": chance.choice((1, 8, 15))},
        {"effect_after_s": 20},
        {"ref": "r1"},
        {"status": chance.choice(("paid", "gone", "pending"))},
        {} if kind == "find" else {"effect": chance.choice(("commit", "same", "none"))},
    )
    for extra in chance.sample(extras, 3):
        rule |= extra
    return rule


def _step(chance: random.Random, at: float, before: list[dict[str, Any]]) -> dict[str, Any]:
    known = [one["op"] for one in before if one["do"] == "call" and len(one["op"]) == 1]
    op, node = chance.choice("ABCD"), chance.choice(("n1", "n2"))
    tool = TOOLS["ABCD".index(op) % 3]
    if not known or chance.random() < 0.3:
        group = {"group": "g"} if op in "AB" else {}
        return {"actor": "agent", "do": "call", "op": op, "tool": tool, "node": node, "args": {"res": "x"}, **group}
    op = chance.choice(known)
    tool = TOOLS["ABCD".index(op) % 3]
    said: tuple[dict[str, Any], ...] = (
        {"actor": "agent", "do": "call_again", "op": op, "node": node},
        {"actor": "agent", "do": "crash", "node": node},
        {"actor": "agent", "do": "pause", "node": node, "until": at + 30},
        {"actor": "agent", "do": "give_up_waiting", "op": op},
        {"actor": "agent", "do": "heartbeat", "op": op, "node": node},
        {"actor": "agent", "do": "call", "op": f"compensate:{op}", "tool": f"{tool[0]}.undo"},
        {"actor": "reconciler", "do": "tick"},
        {"actor": "reconciler", "do": "replay", "op": op},
        {"actor": "compensator", "do": "tick"},
        {"actor": "operator", "do": "unwind", "op": op},
        {"actor": "operator", "do": "disable_tool", "tool": tool},
        {"actor": "operator", "do": "override", "op": op, "decision": chance.choice(("confirmed", "not_found", "kept"))},
        {"actor": "operator", "do": "rebuild_read_model"},
        {"actor": "operator", "do": "reset_offsets", "back_s": 100},
        {"actor": "reviewer", "do": chance.choice(("approve", "reject")), "op": op},
        {"actor": "provider", "do": "webhook", "op": op, "tool": tool, "says": chance.choice(("confirmed", "rejected"))},
        {"actor": "provider", "do": "transport_repeats_request", "op": op},
        {"actor": "provider", "do": "outside_change", "tool": tool, "status": "gone", "text": "gone"},
        {"actor": "broker", "do": "refuse_writes", "until": at + 8},
        {"actor": "broker", "do": "prune", "op": op},
        {"actor": "database", "do": "unavailable", "until": at + 8},
        {"actor": "database", "do": "fail_over", "lost_ops": [op]},
        {"actor": "sdk", "do": "append", "op": op, "event": chance.choice(("succeeded", "failed", "granted", "renewed"))},
    )
    return chance.choice(said)


@pytest.mark.parametrize("first", SEEDS)
def test_nothing_raises_and_the_guarantees_hold(first: int) -> None:
    for seed in range(first, first + 10):
        (case,) = cases_of({"format": 2, "cases": [story(seed)]}, "random")
        assert (seed, run(case).because) == (seed, ())
