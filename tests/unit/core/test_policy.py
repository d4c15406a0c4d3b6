"""Policies: typed values by key, folded from `policy_changed` in the order in which each change saw the one before (§9, §10)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.history import entry, event

from landed.core.events import Position
from landed.core.fold import empty_route, fold, freeze
from landed.core.policy import (
    NO_POLICIES,
    NO_RULES,
    Ceiling,
    Policies,
    PolicyError,
    ToolPolicy,
    check_key,
    parsed,
    policies_of,
    policy_json,
    policy_route,
)
from landed.core.state import Route


def changed(route: Route, new: str | None, *, seen: int, event_id: str, scope: str | None = None) -> Any:
    key = route.route.removeprefix("policy:")
    said = event("policy_changed", event_id=event_id, scope=scope or key, new=new, seen_version=seen)
    return fold(route, entry(msgspec.structs.replace(said, route=route.route)))


def policy(key: str, *texts: str | None) -> Route:
    """The route of *key* after these values in turn."""
    route = empty_route("acme", policy_route(key))
    for number, text in enumerate(texts):
        result = changed(route, text, seen=number, event_id=f"e{number}")
        assert result.accepted
        route = result.route
    return route


def policies(**values: str) -> Policies:
    return policies_of(policy(key.replace("__", ":"), text) for key, text in values.items())


# ---- folding -----------------------------------------------------------------------------------------------------------


def test_a_change_that_did_not_see_the_last_one_is_refused() -> None:
    route = policy("tool:refund", '{"disabled":true}')
    late = changed(route, "{}", seen=0, event_id="other")
    assert (late.accepted, late.reason) == (False, "policy_changed_since")
    assert late.route.policy == '{"disabled":true}'
    assert late.route.version == 1


def test_a_change_that_is_delivered_again_later_does_not_bring_the_old_value_back() -> None:
    route = policy("tool:refund", '{"disabled":true}', None)
    again = changed(route, '{"disabled":true}', seen=0, event_id="e0")
    assert again.repeated
    assert again.route.policy is None


def test_a_change_stands_under_the_route_of_its_key_or_not_at_all() -> None:
    result = changed(empty_route("acme", policy_route("tool:refund")), "{}", seen=0, event_id="e0", scope="tool:pay")
    assert (result.accepted, result.reason) == (False, "scope_is_not_route")


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(['{"disabled":true}', "{}", None])), max_size=12))
def test_whatever_changes_arrive_the_version_counts_those_that_saw_the_last_one(changes: list[tuple[int, str | None]]) -> None:
    route, values = empty_route("acme", policy_route("tool:refund")), []
    for number, (seen, text) in enumerate(changes):
        result = changed(route, text, seen=seen, event_id=f"e{number}")
        assert result.accepted is (seen == len(values))
        if result.accepted:
            values.append(text)
        route = result.route
    assert route.version == len(values)
    assert route.policy == (values[-1] if values else None)


# ---- what holds --------------------------------------------------------------------------------------------------------


def test_what_a_tool_says_itself_counts_more_than_what_is_said_of_every_tool() -> None:
    known = policies(**{"tool__*": '{"observe":true,"approval_wait":5}', "tool__pay": '{"observe":false,"approval":true}'})
    assert (known.rules("pay").observe, known.rules("pay").approval, known.rules("pay").approval_wait_ms) == (False, True, 5_000)
    assert (known.rules("other").observe, known.rules("other").approval) == (True, False)
    assert known.rules("pay").version == "tool:*@1 tool:pay@1"
    assert known.rules("other").version == "tool:*@1"


def test_a_policy_that_was_removed_says_nothing_and_keeps_its_version() -> None:
    known = policies_of([policy("tool:pay", '{"disabled":true}', None)])
    assert known.rules("pay") == msgspec.structs.replace(NO_RULES, version="tool:pay@2")


def test_without_policies_everything_is_allowed_under_no_version() -> None:
    assert policies_of([]) is NO_POLICIES
    assert NO_POLICIES.rules("pay") is NO_RULES
    assert NO_RULES.version is None
    assert not NO_POLICIES.is_automatic("cancel_refund")
    assert NO_POLICIES.ceilings("refund.create") == {}


def test_nobody_is_on_the_list_of_automatic_inverses_but_who_was_put_there() -> None:
    known = policies(automatic='["cancel_refund"]')
    assert known.is_automatic("cancel_refund")
    assert not known.is_automatic("cancel_hotel")


def test_a_claim_meets_the_ceilings_of_its_effect_type_and_those_of_every_type() -> None:
    known = policies(**{"ceiling__*": '{"limit":5,"at_once":true}', "ceiling__refund.create": '{"surge_per_hour":20}'})
    assert known.ceilings("refund.create") == {
        "ceiling:*": (Ceiling(limit=5, at_once=True),),
        "ceiling:refund.create": (Ceiling(limit=20, per_s=3600),),
    }
    assert list(known.ceilings("mail.send")) == ["ceiling:*"]


def test_what_cannot_be_read_is_named_for_the_tools_that_it_might_concern() -> None:
    frozen = freeze(policy("tool:pay", "{}"), None, Position(partition=0, offset=3))
    known = policies_of([frozen, policy("tool:book", '{"from_a_newer_release":1}'), policy("tool:ok", "{}")])
    assert known.unreadable == {"tool:pay", "tool:book"}
    assert known.unreadable_for("tool:*", "tool:pay") == "tool:pay"
    assert known.unreadable_for("tool:*", "tool:ok") is None


# ---- values ------------------------------------------------------------------------------------------------------------

WRONG = [
    ("tool:pay", '{"disable":true}', "unknown field `disable`"),
    ("tool:pay", '{"approval":"yes"}', "bool"),
    ("tool:pay", '{"approval_wait":-1}', "approval_wait: must be from 0"),
    ("tool:pay", '{"approval_lifetime":0}', "approval_lifetime: must be greater than 0"),
    ("tool:pay", '{"approval_wait":86401,"approval_lifetime":9e9}', "approval_lifetime: must be"),
    ("tool:pay", "nonsense", "malformed"),
    ("ceiling:a", '{"limit":-1,"per_s":60}', "limit: must be from 0 to 1000000000"),
    ("ceiling:a", '{"limit":9223372036854775808,"per_s":60}', "limit: must be from 0 to 1000000000"),
    ("ceiling:a", '{"surge_per_hour":1000000001}', "limit: must be from 0 to 1000000000"),
    ("ceiling:a", '{"limit":1}', "exactly one of them"),
    ("ceiling:a", '{"limit":1,"per_s":60,"at_once":true}', "exactly one of them"),
    ("ceiling:a", '{"limit":1,"per_s":0}', "per_s: must be at least 1"),
    ("ceiling:a", '{"surge_per_hour":1,"limit":2}', "unknown field `limit`"),
    ("ceiling:a", '{"surge_per_hour":1,"surge_action":"maybe"}', "Invalid enum value"),
    ("ceiling:a", '{"limit":1,"per_s":60,"scope":"planet"}', "Invalid enum value"),
    ("ceiling:a", "[]", "must not be empty"),
    ("automatic", '[""]', "must not be empty"),
    ("automatic", '{"tool":"x"}', "Expected `array`"),
    ("tools:pay", "{}", "key: must be tool:<tool>"),
    ("tool:", "{}", "key: must be"),
    ("tool: pay", "{}", "key: must be"),
    ("tool:p\ny", "{}", "key: must be"),
    ("tool:" + "x" * 180, "{}", "key: must be"),
    ("ceiling", "{}", "key: must be"),
]


@pytest.mark.parametrize(("key", "text", "rule"), WRONG)
def test_an_unknown_field_or_a_broken_rule_is_an_error_that_names_it(key: str, text: str, rule: str) -> None:
    with pytest.raises(PolicyError, match=r".*") as caught:
        parsed(key, text)
    assert rule in str(caught.value)
    assert caught.value.problems


def test_the_short_form_of_a_ceiling_is_an_hour() -> None:
    assert parsed("ceiling:a", '{"surge_per_hour":20,"surge_action":"observe"}') == (
        Ceiling(limit=20, per_s=3600, action="observe"),
    )
    assert parsed("ceiling:a", '[{"limit":3,"at_once":true,"scope":"group"},{"limit":9,"per_s":60}]') == (
        Ceiling(limit=3, at_once=True, scope="group"),
        Ceiling(limit=9, per_s=60),
    )


TOOL_POLICIES = st.builds(
    ToolPolicy,
    disabled=st.none() | st.booleans(),
    approval=st.none() | st.booleans(),
    approval_wait=st.none() | st.floats(0, 86_400),
    approval_lifetime=st.none() | st.floats(0.1, 86_400),
    four_eyes=st.none() | st.booleans(),
    observe=st.none() | st.booleans(),
)
CEILINGS = st.builds(
    Ceiling, limit=st.integers(0, 10**9), per_s=st.integers(1, 86_400), scope=st.sampled_from(["tenant", "group"])
)


@given(st.one_of(st.tuples(st.just("tool:pay"), TOOL_POLICIES), st.tuples(st.just("ceiling:a"), st.tuples(CEILINGS))))
def test_a_value_on_the_log_reads_as_it_was_written(made: tuple[str, Any]) -> None:
    key, value = made
    assert parsed(key, policy_json(value)) == value


def test_the_keys_of_the_documentation_are_keys() -> None:
    for key in ("tool:pay", "tool:*", "ceiling:refund.create", "ceiling:*", "automatic"):
        check_key(key)
