"""The policy behind the policy key `compensation`, as something that can be asked."""

from collections.abc import Iterator
from functools import lru_cache

from landed.core import authorization as core
from landed.core.contract import Problem
from landed.core.policy import PolicyError, PolicyValue
from landed.core.vocabulary import Decision
from landed.ports.authorization import Authorizer


class BuiltIn:
    """The built-in policy: a rules file."""

    def __init__(self, rules: core.Rules) -> None:
        self._rules = rules

    def ruling(self, asked: core.Asked) -> core.Ruling:
        return core.ruling(self._rules, asked)


def problems(policy: core.CompensationPolicy) -> Iterator[Problem]:
    """What is wrong with *policy*; says so too where its engine is not installed."""
    if isinstance(policy, core.Rules):
        yield from core.problems(policy)
        return
    try:
        from landed.adapters import cedar
    except ImportError:
        yield Problem("engine", "cedar needs the package cedarpy: install landed[cedar]")
        return
    yield from cedar.problems(policy)


def check(key: str, value: PolicyValue) -> None:
    """Refuses a policy that its engine cannot take.

    Raises:
        PolicyError: lists every field and rule that is broken.
    """
    if isinstance(value, core.Rules | core.CedarPolicies):
        found = [Problem(f"{key}: {one.field}", one.rule) for one in problems(value)]
        if found:
            raise PolicyError(found)


def ask(policy: core.CompensationPolicy, asked: core.Asked) -> core.Ruling:
    """The ruling of *policy*; where its engine is not installed, or refuses the policy, it is denied."""
    try:
        return authorizer_of(policy).ruling(asked)
    except Exception as error:
        reason = f"the policy could not be evaluated: {type(error).__name__}"
        return core.Ruling(decision=Decision.DENY, reason=reason)


def authorizer_of(policy: core.CompensationPolicy) -> Authorizer:
    """Raises `ImportError` where Cedar policies meet an installation without `landed[cedar]`."""
    if isinstance(policy, core.Rules):
        return BuiltIn(policy)
    from landed.adapters.cedar import Cedar

    return _cedar(policy.policies, tuple(policy.inputs.items()), Cedar)


@lru_cache(maxsize=64)
def _cedar(policies: str, inputs: tuple[tuple[str, str], ...], engine: type) -> Authorizer:
    made: Authorizer = engine(core.CedarPolicies(policies=policies, inputs=dict(inputs)))  # type: ignore[arg-type]
    return made
