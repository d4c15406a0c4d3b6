"""Cedar as the policy for inverses: the same questions, the same kind of answers as the built-in rules."""

from typing import Any

import msgspec
import pytest

from landed.adapters.authorizing import authorizer_of, problems
from landed.core.authorization import Asked, CedarPolicies, CompensationPolicy, Context, Rule, Rules
from landed.core.vocabulary import Decision, ForwardOutcome

SMALL = """
@id("small")
permit(principal == Worker::"compensator", action == Action::"hotel.cancel", resource)
when { context.forward_status == "succeeded" && context.inputs has amount && context.inputs.amount <= 100 };
"""
APPROVED = '@id("approved") permit(principal, action, resource) when { context has approved_by };'
FREEZE = '@id("freeze") forbid(principal, action, resource) when { context.workflow_id == "trip-1" };'


def cedar(text: str, **inputs: Any) -> CedarPolicies:
    return CedarPolicies(policies=text, inputs=inputs or {"amount": "Long"})


def asked(**changes: Any) -> Asked:
    context: dict[str, Any] = {
        "workflow_id": "trip-1",
        "caused_by_action": "later_step_failed",
        "forward_status": ForwardOutcome.SUCCEEDED,
        "policy_version": "compensation@1",
        "requires_human": False,
        "tenant_id": "acme",
        "forward_tool": "hotel.book",
        "age_s": 60.5,
        "inputs": {"amount": 90},
        "evidence": True,
    }
    return Asked(action="hotel.cancel", resource='r-"1', principal="compensator", context=Context(**context | changes))


def said(policy: CompensationPolicy, **changes: Any) -> tuple[Decision, str | None, bool]:
    found = authorizer_of(policy).ruling(asked(**changes))
    return found.decision, found.rule, found.needs_human


def test_a_permit_is_named_by_its_id() -> None:
    assert said(cedar(SMALL)) == (Decision.ALLOW, "small", False)


def test_what_nothing_permits_is_denied() -> None:
    assert said(cedar(SMALL), inputs={"amount": 101}) == (Decision.DENY, None, False)
    assert said(cedar(SMALL), inputs={"amount": "90"}) == (Decision.DENY, None, False)
    assert said(cedar(SMALL), forward_status=ForwardOutcome.UNKNOWN) == (Decision.DENY, None, False)


def test_a_forbid_wins_over_any_permit() -> None:
    assert said(cedar(SMALL + FREEZE)) == (Decision.DENY, "freeze", False)
    assert said(cedar(APPROVED + FREEZE), approved_by="anna") == (Decision.DENY, "freeze", False)


def test_want_of_an_approval_is_a_matter_for_a_person() -> None:
    assert said(cedar(APPROVED)) == (Decision.DENY, "approved", True)
    assert said(cedar(APPROVED), approved_by="anna") == (Decision.ALLOW, "approved", False)
    assert said(cedar(SMALL), requires_human=True) == (Decision.DENY, "small", True)


def test_a_policy_that_fails_denies_even_where_another_permits() -> None:
    broken = '@id("b") forbid(principal, action, resource) when { context.inputs.missing > 1 };'

    assert said(cedar(SMALL + broken))[0] is Decision.DENY


def test_decimals_are_compared_as_decimals() -> None:
    limit = 'context.inputs has price && context.inputs.price.lessThanOrEqual(decimal("9.99"))'
    policy = cedar(f'@id("d") permit(principal, action, resource) when {{ {limit} }};', price="decimal")

    assert said(policy, inputs={"price": 9.99})[0] is Decision.ALLOW
    assert said(policy, inputs={"price": "10.00"})[0] is Decision.DENY
    assert said(policy, inputs={"price": "nan"})[0] is Decision.DENY
    assert said(policy, inputs={"price": 1e300})[0] is Decision.DENY


def test_a_typing_error_in_the_context_is_found_before_it_is_in_force() -> None:
    wrong = cedar('@id("typo") permit(principal, action, resource) when { context.forward_statsu == "succeeded" };')

    assert [one.field for one in problems(wrong)] == ["policies[typo]"]
    assert [one.field for one in problems(cedar("permit("))] == ["policies"]
    assert list(problems(cedar(SMALL + APPROVED + FREEZE))) == []


@pytest.mark.parametrize("name", ["O'Brien", "Zoë", "预订", 'a "quoted" one', "back\\slash", "two\nlines", "e\u0301", "\u0301x"])
def test_names_and_references_of_any_letters_are_what_the_policy_is_asked_about(name: str) -> None:
    named = cedar("permit(principal, action, resource);", amount="Long")
    request = msgspec.structs.replace(asked(), principal=name, action=name, resource=name)
    assert authorizer_of(named).ruling(request).decision is Decision.ALLOW


@pytest.mark.parametrize("name", ["O'Brien", "löschen", "two\nlines"])
def test_a_policy_about_actions_and_inputs_of_any_letters_is_taken_and_decides(name: str) -> None:
    text = name.replace("\n", "\\n")
    policy = cedar(
        f'permit(principal, action == Action::"{text}", resource) when {{ context.inputs has "{text}" }};', **{name: "Long"}
    )
    assert list(problems(policy)) == []
    request = msgspec.structs.replace(asked(inputs={name: 1}), action=name)
    assert authorizer_of(policy).ruling(request).decision is Decision.ALLOW
    assert authorizer_of(policy).ruling(asked(inputs={name: 1})).decision is Decision.DENY


@pytest.mark.parametrize("policy", [Rules(rules=(Rule(id="r"),)), cedar(SMALL)])
def test_both_engines_are_values_of_one_policy(policy: CompensationPolicy) -> None:
    text = msgspec.json.encode(policy)

    assert msgspec.json.decode(text, type=CompensationPolicy) == policy
