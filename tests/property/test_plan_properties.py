"""Plans over random groups: dependents first, nothing twice, stable, as brute force finds them, and as claims are decided.

Also over groups whose steps depend on each other in circles, on themselves or on nothing known, as observe mode lets them be.
"""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from landed.core import recovery
from landed.core.contract import Compensation, Contract, Effect, contract_json
from landed.core.plan import plan
from landed.core.state import Operation, Route
from landed.core.vocabulary import GroupState, State

NOW = 1_000_000


def _operation(name: str, at: int, depends_on: tuple[str, ...] | None, confirmed: tuple[str, ...], safe: bool) -> Operation:
    contract = Contract(
        tool=name, effect=Effect(kind=name), compensation=(Compensation(tool=f"undo_{name}", parallel_safe=safe),)
    )
    return Operation(
        operation_id=name,
        state=State.CONFIRMED,
        tool=name,
        effect_type=name,
        contract_text=contract_json(contract),
        compensation=(f"undo_{name}",),
        depends_on=depends_on,
        confirmed_before=confirmed,
        confirmed_at_ms=at,
    )


@st.composite
def groups(draw: st.DrawFn, most: int = 7) -> Route:
    """Confirmed steps that depend on earlier ones; times may be equal or run backwards, as after a late confirmation."""
    names: list[str] = []
    operations = {}
    for number in range(draw(st.integers(1, most))):
        name = f"op{number}"
        earlier = tuple(names)
        declared = draw(st.none() | st.lists(st.sampled_from(names), unique=True).map(tuple)) if names else ()
        at = draw(st.integers(1, 5))
        operations[name] = _operation(name, at, declared, earlier, draw(st.booleans()))
        names.append(name)
    return Route(tenant_id="acme", route="trip", group_state=GroupState.UNWINDING, operations=operations)


def _before(route: Route) -> dict[str, set[str]]:
    """Independent of the product: which operations must be undone before each, by walking prerequisites down."""
    above: dict[str, set[str]] = {name: set() for name in route.operations}

    def walk(top: str, name: str) -> None:
        op = route.operations[name]
        for lower in op.confirmed_before if op.depends_on is None else op.depends_on:
            above[lower].add(top)
            walk(top, lower)

    for name in route.operations:
        walk(name, name)
    return above


@given(groups())
def test_no_inverse_comes_before_that_of_what_depends_on_it_and_nothing_comes_twice(route: Route) -> None:
    steps = plan(route, now_ms=NOW).steps
    names = [step.operation_id for step in steps]
    orders = {step.operation_id: step.order for step in steps}

    assert sorted(names) == sorted(route.operations)
    for name, earlier in _before(route).items():
        assert all(orders[one] < orders[name] for one in earlier)


@settings(max_examples=60)
@given(groups(most=5))
def test_the_order_is_the_one_that_brute_force_finds(route: Route) -> None:
    before = _before(route)
    legal = (
        order
        for order in permutations(route.operations)
        if all(before[name] <= set(order[:place]) for place, name in enumerate(order))
    )
    best = max(legal, key=lambda order: [recovery.confirmed_order(route.operations[name]) for name in order])

    assert [step.operation_id for step in plan(route, now_ms=NOW).steps] == list(best)


@given(groups())
def test_steps_of_one_order_are_independent_and_all_parallel_safe(route: Route) -> None:
    before = _before(route)
    waves: dict[int, list[str]] = {}
    for step in plan(route, now_ms=NOW).steps:
        waves.setdefault(step.order, []).append(step.operation_id)

    for wave in waves.values():
        if len(wave) > 1:
            assert all(recovery.parallel_safe(route.operations[name]) for name in wave)
            assert all(before[name].isdisjoint(wave) for name in wave)


@given(groups())
def test_a_claim_for_the_inverse_that_the_plan_names_next_is_due(route: Route) -> None:
    while steps := plan(route, now_ms=NOW).steps:
        first = [step.operation_id for step in steps if step.order == 1]
        for name in first:
            assert recovery.comes_first(route, name) is None
        done = {name: replace(route.operations[name], state=State.COMPENSATED) for name in first}
        route = replace(route, operations={**route.operations, **done})


@given(groups(), st.data())
def test_the_plan_of_what_is_left_is_the_rest_of_the_plan(route: Route, data: st.DataObject) -> None:
    names = [step.operation_id for step in plan(route, now_ms=NOW).steps]
    done = data.draw(st.integers(0, len(names)))
    undone = {name: replace(route.operations[name], state=State.COMPENSATED) for name in names[:done]}
    left = replace(route, operations={**route.operations, **undone})

    assert [step.operation_id for step in plan(left, now_ms=NOW).steps] == names[done:]


@given(groups(), st.data())
def test_the_order_does_not_depend_on_the_order_in_which_the_steps_were_read(route: Route, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(list(route.operations)))
    other = replace(route, operations={name: route.operations[name] for name in shuffled})

    assert plan(other, now_ms=NOW) == replace(plan(route, now_ms=NOW), skipped=plan(other, now_ms=NOW).skipped)


@st.composite
def odd_groups(draw: st.DrawFn) -> Route:
    """Confirmed steps that may depend on any of them, and on what nobody knows: circles too."""
    names = [f"op{number}" for number in range(draw(st.integers(1, 6)))]
    any_of_them = st.lists(st.sampled_from([*names, "nobody"]), unique=True).map(tuple)
    operations = {name: _operation(name, draw(st.integers(1, 5)), draw(any_of_them), (), draw(st.booleans())) for name in names}
    return Route(tenant_id="acme", route="trip", group_state=GroupState.UNWINDING, operations=operations)


@given(odd_groups())
def test_whatever_depends_on_whatever_the_step_that_the_plan_names_next_is_due_until_nothing_is_left(route: Route) -> None:
    undone: list[str] = []
    while steps := plan(route, now_ms=NOW).steps:
        first = [step.operation_id for step in steps if step.order == 1]
        for name in first:
            assert recovery.comes_first(route, name) is None
        done = {name: replace(route.operations[name], state=State.COMPENSATED) for name in first}
        route = replace(route, operations={**route.operations, **done})
        undone += first

    assert sorted(undone) == sorted(route.operations)
