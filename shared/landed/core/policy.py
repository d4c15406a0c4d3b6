"""Policies of a tenant: typed values folded from `policy_changed`, and what they say about a tool, an effect type, an inverse.

A policy has a key. Its changes stand on the log under the route `policy:<key>` and are numbered there from 1; a change that did
not see the one before it is refused by the fold, so nobody overwrites what they have not seen. Durations are seconds.

| key | value |
|---|---|
| `tool:<tool>`, `tool:*` | `ToolPolicy`; `tool:*` holds for every tool, what the tool's own key says counts more |
| `ceiling:<effect type>`, `ceiling:*` | a `Ceiling`, its short form, or a list of them |
| `automatic` | list of inverse tools that the compensator may run by itself |
| `compensation` | `Rules` or `CedarPolicies`: who may perform which inverse; without one, nobody |

Source: docs/semantics.md §4, §5, §8, §9, §10; docs/policies.md.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import isfinite
from typing import Any, Final, Literal, TypeAlias

import msgspec

from landed.core import authorization
from landed.core.authorization import CedarPolicies, CompensationPolicy, Rules
from landed.core.contract import Part, Problem
from landed.core.errors import LandedError
from landed.core.state import POLICY_ROUTE, Route

TOOL: Final = "tool:"
CEILING: Final = "ceiling:"
AUTOMATIC: Final = "automatic"
COMPENSATION: Final = "compensation"
EVERY: Final = "*"
APPROVAL_WAIT_MAX_S: Final = 86_400
APPROVAL_LIFETIME_MAX_S: Final = 30 * 86_400
KEY_CHARACTERS_MAX: Final = 180
LIMIT_MAX: Final = 1_000_000_000
"""Grants that a ceiling may let through. What counts them holds no larger number, and would fail for everybody."""
CONTAINED_MAX: Final = 1_000
"""Operations that a ceiling with `contain` may let through."""


class PolicyError(LandedError):
    """A key or a value of a policy breaks a rule; lists each field and rule."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class ToolPolicy(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a tenant says about a tool; a field that is left out says nothing."""

    disabled: bool | None = None
    """True: every claim is refused (`policy_denied`)."""
    approval: bool | None = None
    """True: a person approves each request before it is dispatched."""
    approval_wait: float | None = None
    """Seconds that a caller waits for the approval; 0: it is answered `approval_required` at once."""
    approval_lifetime: float | None = None
    """Seconds after which a request for approval lapses, and after which an approval that was given is over."""
    four_eyes: bool | None = None
    """True: whoever asked cannot approve."""
    observe: bool | None = None
    """True: nothing is refused, and what would have been is recorded."""


class Ceiling(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """At most `limit` grants within `per_s` seconds, or at most `limit` operations that are not settled (`at_once`)."""

    limit: int
    per_s: int | None = None
    at_once: bool = False
    scope: Literal["tenant", "group"] = "tenant"
    """Counted over all groups of the tenant, or in each group by itself."""
    action: Literal["deny", "observe"] = "deny"
    contain: bool = False
    """When its breaker opens, what got through is put into a group with a plan that undoes it."""


class _Short(Part, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The short form of a ceiling (semantics.md §9)."""

    surge_per_hour: int
    surge_action: Literal["deny", "observe"] = "deny"


PolicyValue: TypeAlias = ToolPolicy | tuple[Ceiling, ...] | tuple[str, ...] | CompensationPolicy


class ToolRules(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for one tool, all fields decided."""

    version: str | None = None
    """Keys and numbers of the policies that decided, such as `tool:*@1 tool:refund@3`; None: there never was one."""
    disabled: bool = False
    approval: bool = False
    approval_wait_ms: int = 0
    approval_lifetime_ms: int = 3_600_000
    four_eyes: bool = False
    observe: bool = False


NO_RULES: Final = ToolRules()


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """All policies of one tenant as the log folds them."""

    values: Mapping[str, PolicyValue] = {}
    """By key; a key whose policy was removed has a version and no value."""
    versions: Mapping[str, int] = {}
    unreadable: frozenset[str] = frozenset()
    """Keys whose value this release cannot read: what they might forbid is refused."""

    def version(self, *keys: str) -> str | None:
        """The versions of those of *keys* that ever had a policy, as one text; None where none had."""
        known = [f"{key}@{self.versions[key]}" for key in keys if key in self.versions]
        return " ".join(known) or None

    def unreadable_for(self, *keys: str) -> str | None:
        """The first of *keys* whose value cannot be read."""
        return next((key for key in keys if key in self.unreadable), None)

    def rules(self, tool: str) -> ToolRules:
        """What holds for *tool*."""
        if not self.versions:
            return NO_RULES
        keys = (TOOL + EVERY, TOOL + tool)
        if not self.versions.keys() & set(keys):
            return NO_RULES
        said: dict[str, Any] = {}
        for value in map(self.values.get, keys):
            if isinstance(value, ToolPolicy):
                said |= {name: one for name in value.__struct_fields__ if (one := getattr(value, name)) is not None}
        for name in ("approval_wait", "approval_lifetime"):
            if name in said:
                said[f"{name}_ms"] = round(said.pop(name) * 1000)
        return ToolRules(version=self.version(*keys), **said)

    def ceilings(self, effect_type: str) -> Mapping[str, tuple[Ceiling, ...]]:
        """Ceilings that a claim of *effect_type* is counted in, by key of their policy."""
        found = {key: self.values.get(key) for key in (CEILING + EVERY, CEILING + effect_type)}
        return {
            key: tuple(c for c in value if isinstance(c, Ceiling)) for key, value in found.items() if isinstance(value, tuple)
        }

    def is_automatic(self, inverse_tool: str) -> bool:
        """Whether the compensator may run *inverse_tool* by itself as far as the tenant says; by default none."""
        allowed = self.values.get(AUTOMATIC)
        return isinstance(allowed, tuple) and inverse_tool in allowed

    @property
    def compensation(self) -> CompensationPolicy | None:
        """Who may perform which inverse; None: nothing was said, so nobody may."""
        value = self.values.get(COMPENSATION)
        return value if isinstance(value, Rules | CedarPolicies) else None


NO_POLICIES: Final = Policies()


# ---- folding -------------------------------------------------------------------------------------------------------------


def policy_route(key: str) -> str:
    """Route of the policy *key*."""
    return POLICY_ROUTE + key


def policies_of(routes: Iterable[Route]) -> Policies:
    """The policies in *routes*, which are those of one tenant; routes that hold none are passed over."""
    values: dict[str, PolicyValue] = {}
    versions: dict[str, int] = {}
    unreadable: set[str] = set()
    for route in routes:
        if not route.route.startswith(POLICY_ROUTE) or not (route.version or route.frozen_at):
            continue
        key = route.route[len(POLICY_ROUTE) :]
        versions[key] = route.version
        try:
            if route.policy is not None:
                values[key] = _value(key, route.policy)
        except PolicyError:
            unreadable.add(key)
        if route.frozen_at:
            unreadable.add(key)
    if not versions:
        return NO_POLICIES
    return Policies(values=values, versions=versions, unreadable=frozenset(unreadable))


@lru_cache(maxsize=1024)
def _value(key: str, text: str) -> PolicyValue:
    return parsed(key, text)


# ---- values --------------------------------------------------------------------------------------------------------------


def check_key(key: str) -> None:
    """Raises `PolicyError` where no policy has such a key."""
    kind, colon, name = key.partition(":")
    known = key in (AUTOMATIC, COMPENSATION) or (colon and name.strip() == name and name and f"{kind}:" in (TOOL, CEILING))
    if not known or len(key) > KEY_CHARACTERS_MAX or any(ord(character) < 32 or ord(character) == 127 for character in key):
        rule = (
            "must be tool:<tool>, tool:*, ceiling:<effect type>, ceiling:*, automatic or compensation, "
            f"at most {KEY_CHARACTERS_MAX} characters"
        )
        raise PolicyError([Problem("key", f"{rule}; got {key[:KEY_CHARACTERS_MAX]!r}")])


def parsed(key: str, text: str) -> PolicyValue:
    """The value of the policy *key* from its JSON.

    Raises:
        PolicyError: lists every field and rule that is broken; an unknown field is one.
    """
    check_key(key)
    try:
        if key == AUTOMATIC:
            value: PolicyValue = msgspec.json.decode(text, type=tuple[str, ...])
        elif key == COMPENSATION:
            value = msgspec.json.decode(text, type=CompensationPolicy)
        elif key.startswith(TOOL):
            value = msgspec.json.decode(text, type=ToolPolicy)
        else:
            value = _ceilings(msgspec.json.decode(text))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PolicyError([Problem(key, str(error))]) from None
    found = [Problem(f"{key}: {field}", rule) for field, rule in _problems(value)]
    if found:
        raise PolicyError(found)
    return value


def _ceilings(document: Any) -> tuple[Ceiling, ...]:
    return tuple(_ceiling(one) for one in (document if isinstance(document, list) else [document]))


def _ceiling(document: Any) -> Ceiling:
    if isinstance(document, dict) and any(str(name).startswith("surge_") for name in document):
        short = msgspec.convert(document, _Short)
        return Ceiling(limit=short.surge_per_hour, per_s=3600, action=short.surge_action)
    return msgspec.convert(document, Ceiling)


def _problems(value: PolicyValue) -> list[tuple[str, str]]:
    if isinstance(value, ToolPolicy):
        return _tool_problems(value)
    if isinstance(value, Rules):
        return [(problem.field, problem.rule) for problem in authorization.problems(value)]
    if isinstance(value, CedarPolicies):
        return []  # read by its engine, which is no part of the core: `adapters.authorizing.problems`
    found = []
    if not value:
        found.append(("list", "must not be empty: remove the policy instead"))
    for one in value:
        if isinstance(one, str):
            if not one.strip():
                found.append(("tool", "must not be empty"))
            continue
        if not 0 <= one.limit <= LIMIT_MAX:
            found.append(("limit", f"must be from 0 to {LIMIT_MAX}"))
        if (one.per_s is None) is not one.at_once:
            found.append(("per_s, at_once", "exactly one of them says what is counted"))
        if one.per_s is not None and not 1 <= one.per_s <= 31 * 86_400:
            found.append(("per_s", "must be at least 1 second and at most 31 days"))
        if one.contain and one.scope == "group":
            found.append(("contain", "is for scope tenant: in a group, what got through is that group, and has a plan already"))
        if one.contain and one.limit > CONTAINED_MAX:
            found.append(("contain", f"is for a limit of at most {CONTAINED_MAX}: one record holds all that got through"))
    return found


def _tool_problems(value: ToolPolicy) -> list[tuple[str, str]]:
    found = []
    wait, lifetime = value.approval_wait, value.approval_lifetime
    if wait is not None and not (isfinite(wait) and 0 <= wait <= APPROVAL_WAIT_MAX_S):
        found.append(("approval_wait", f"must be from 0 to {APPROVAL_WAIT_MAX_S} (seconds)"))
    if lifetime is not None and not (isfinite(lifetime) and 0 < lifetime <= APPROVAL_LIFETIME_MAX_S):
        found.append(("approval_lifetime", f"must be greater than 0 and at most {APPROVAL_LIFETIME_MAX_S} (seconds)"))
    return found


_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def policy_json(value: PolicyValue) -> str:
    """Canonical JSON of *value* as it stands on the log; ceilings in their long form."""
    return _ENCODER.encode(value).decode()


__all__ = [
    "AUTOMATIC",
    "CEILING",
    "COMPENSATION",
    "CONTAINED_MAX",
    "EVERY",
    "LIMIT_MAX",
    "NO_POLICIES",
    "NO_RULES",
    "TOOL",
    "Ceiling",
    "Policies",
    "PolicyError",
    "PolicyValue",
    "ToolPolicy",
    "ToolRules",
    "check_key",
    "parsed",
    "policies_of",
    "policy_json",
    "policy_route",
]
