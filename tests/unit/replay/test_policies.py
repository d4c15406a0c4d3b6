"""The policies that go with a part of a log: those of its tools, by which its decisions are made again from that part alone."""

from tests.unit.replay.playing import items, log_of, run

from landed.core import events as ev
from landed.core.state import POLICY_ROUTE
from landed_services.replay.policies import with_policies, without_policies
from landed_services.replay.scope import Scope


def test_a_part_of_a_log_with_its_policies_is_judged_as_the_whole_is() -> None:
    log = log_of("C67")
    policies = {one.event.route for one in log if isinstance(one.event, ev.PolicyChanged)}
    refused = next(one.event for one in log if isinstance(one.event, ev.DispatchRefused) and one.event.policy_version)
    scope = with_policies(Scope(tenant_id=refused.tenant_id, group=refused.route), items(log))
    part = [one for one in log if scope.admits_route(one.event.tenant_id, one.event.route)]
    assert policies & {one.event.route for one in part}
    tally = run(part, scope=scope).what_if.tally
    assert (tally.decisions > 0, tally.same) == (True, tally.decisions)
    alone = [one for one in part if not one.event.route.startswith(POLICY_ROUTE)]
    assert [one.what for one in without_policies(items(part))] == alone
    without = run(alone, scope=scope).what_if.tally
    assert without.same < without.decisions


def test_policies_of_other_tools_and_tenants_stay_out() -> None:
    log = log_of("C67")
    intent = next(one.event for one in log if isinstance(one.event, ev.OperationPrepared))
    scope = with_policies(Scope(tenant_id=intent.tenant_id, group=intent.route), items(log))
    assert scope.admits_route(intent.tenant_id, f"{POLICY_ROUTE}tool:{intent.tool}")
    assert scope.admits_route(intent.tenant_id, f"{POLICY_ROUTE}ceiling:{intent.effect_type}")
    assert not scope.admits_route(intent.tenant_id, f"{POLICY_ROUTE}tool:another")
    assert not scope.admits_route("another", f"{POLICY_ROUTE}tool:{intent.tool}")
