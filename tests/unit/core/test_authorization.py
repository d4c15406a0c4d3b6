"""Who may perform which inverse (docs/semantics.md §8): default deny, deny wins, limits, approvals, what no policy allows."""

from typing import Any

import pytest

from landed.core.authorization import AmountLimit, Asked, Context, Rule, Rules, problems, ruling, settled_before
from landed.core.vocabulary import Decision, ForwardOutcome


def asked(action: str = "hotel.cancel", principal: str = "compensator", **context: Any) -> Asked:
    known: dict[str, Any] = {
        "workflow_id": "trip-1",
        "caused_by_action": "later_step_failed",
        "forward_status": ForwardOutcome.SUCCEEDED,
        "policy_version": "compensation@1",
        "requires_human": False,
        "tenant_id": "acme",
        "workflow_type": "trip",
        "forward_tool": "hotel.book",
        "age_s": 60.0,
        "inputs": {"amount": 90},
        "evidence": True,
    }
    return Asked(action=action, resource="ref-1", principal=principal, context=Context(**known | context))


def said(*rules: Rule, **request: Any) -> tuple[Decision, str | None, bool]:
    found = ruling(Rules(rules=rules), asked(**request))
    return found.decision, found.rule, found.needs_human


ANY = Rule(id="any")


def test_what_no_rule_allows_is_denied() -> None:
    assert said() == (Decision.DENY, None, False)
    assert said(Rule(id="other", actions=("flight.*",))) == (Decision.DENY, None, False)


def test_a_rule_that_allows_is_named_in_the_ruling() -> None:
    assert said(Rule(id="hotels", actions=("hotel.*",), principals=("compensator",))) == (Decision.ALLOW, "hotels", False)


def test_a_rule_that_denies_wins_over_any_that_allows_wherever_it_stands() -> None:
    freeze = Rule(id="freeze", effect="deny", actions=("hotel.*",))

    assert said(ANY, freeze) == said(freeze, ANY) == (Decision.DENY, "freeze", False)


@pytest.mark.parametrize("status", list(ForwardOutcome))
def test_a_rule_that_denies_speaks_of_every_forward_status_one_that_allows_only_of_success(status: ForwardOutcome) -> None:
    always = Rule(id="always", forward_status=tuple(ForwardOutcome))
    deny = Rule(id="freeze", effect="deny")

    assert said(always, deny, forward_status=status) == (Decision.DENY, "freeze", False)
    assert said(ANY, forward_status=status)[0] is (Decision.ALLOW if status is ForwardOutcome.SUCCEEDED else Decision.DENY)


@pytest.mark.parametrize("name", ["pay[eu]", "pay?", "pay[!a]", "pay]["])
def test_only_the_star_is_a_pattern_in_a_rule(name: str) -> None:
    deny = Rule(id="freeze", effect="deny", actions=(name,))
    assert ruling(Rules(rules=(ANY, deny)), asked(action=name)).rule == "freeze"
    assert ruling(Rules(rules=(ANY, deny)), asked(action="paye")).rule == "any"


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        (Rule(id="r", principals=("ops-*",)), {}),
        (Rule(id="r", workflow_types=("order",)), {}),
        (Rule(id="r"), {"forward_status": ForwardOutcome.UNKNOWN}),
        (Rule(id="r", max_age=59), {}),
        (Rule(id="r", max_age=3600), {"age_s": None}),
        (Rule(id="r", amount=AmountLimit(field="amount", at_most=89.5)), {}),
        (Rule(id="r", amount=AmountLimit(field="amount", at_most=100)), {"inputs": {}}),
        (Rule(id="r", amount=AmountLimit(field="amount", at_most=100)), {"inputs": {"amount": "a lot"}}),
        (Rule(id="r", amount=AmountLimit(field="amount", at_most=100)), {"inputs": {"amount": True}}),
        (Rule(id="r", amount=AmountLimit(field="amount", at_most=100)), {"inputs": {"amount": "nan"}}),
        *(
            (Rule(id="r", amount=AmountLimit(field="amount", at_most=100)), {"inputs": {"amount": amount}})
            for amount in (
                -1,
                "-1",
                "1_0",
                "\u0661",
                " 10",
                "10 EUR",
                "10,00",
                "1e1",
                "",
                [10],
                {"value": 10},
                10**400,
                "100." + "0" * 30 + "1",
            )
        ),
    ],
)
def test_each_limit_of_a_rule_has_to_hold_and_what_cannot_be_compared_does_not(rule: Rule, change: dict[str, Any]) -> None:
    assert said(rule, **change)[0] is Decision.DENY


def test_limits_that_hold_allow() -> None:
    rule = Rule(id="small", amount=AmountLimit(field="amount", at_most=90), max_age=60)

    assert said(rule) == (Decision.ALLOW, "small", False)
    for amount in ("90.0", 0, 90.0, "0.1", "00"):
        assert said(rule, inputs={"amount": amount}) == (Decision.ALLOW, "small", False)


def test_want_of_an_approval_is_a_matter_for_a_person_a_limit_is_not() -> None:
    approved = Rule(id="approved", approval=True)
    small = Rule(id="small", amount=AmountLimit(field="amount", at_most=10), approval=True)

    assert said(approved) == (Decision.DENY, "approved", True)
    assert said(approved, approved_by="anna") == (Decision.ALLOW, "approved", False)
    assert said(small, approved_by="anna")[0] is Decision.DENY
    assert said(small)[2] is False


def test_an_inverse_that_requires_a_human_needs_an_approval_whatever_the_rules_leave_out() -> None:
    assert said(ANY, requires_human=True) == (Decision.DENY, "any", True)
    assert said(ANY, requires_human=True, approved_by="anna") == (Decision.ALLOW, "any", False)


def test_incomplete_evidence_and_foreign_references_are_denied_before_any_policy_is_asked() -> None:
    assert settled_before(asked()) is None
    for change in ({"evidence": False}, {"foreign_reference": True}):
        found = settled_before(asked(**change))
        assert found is not None
        assert found.decision is Decision.DENY
        assert not found.needs_human


def test_broken_rules_name_field_and_rule() -> None:
    broken = Rules(
        rules=(
            Rule(id=""),
            Rule(id="a", max_age=0),
            Rule(id="a", actions=()),
            Rule(id="b", effect="deny", approval=True),
            Rule(id="c", amount=AmountLimit(field="amount", at_most=float("nan"))),
        )
    )

    assert [one.field for one in problems(broken)] == [
        "rules[0].id",
        "rules[1].max_age",
        "rules[2].id",
        "rules[2].actions",
        "rules[3].effect",
        "rules[4].amount.at_most",
    ]
    assert list(problems(Rules(rules=(ANY,)))) == []
