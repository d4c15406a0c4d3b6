"""Cedar policies for inverses, evaluated by `cedarpy` (extra `cedar`).

Principal `Worker::"<who claims>"`, action `Action::"<action>"`, resource `Effect::"<reference>"`; the context has the fields of
`core.authorization.Context`, those that may be missing only where they are known (`context has age_s`). A policy that wants an
approval says `context has approved_by`; where only that is missing, the ruling says that a person may give it.

Source: https://docs.cedarpolicy.com/policies/syntax-policy.html (forbid overrides permit, default deny).
"""

import json
from collections.abc import Iterator, Mapping
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, Final

import cedarpy
import msgspec

from landed.core.authorization import Asked, CedarPolicies, Ruling
from landed.core.contract import Problem
from landed.core.vocabulary import Decision

_CONTEXT: Final = """{
  workflow_id: String, caused_by_action: String, forward_status: String, policy_version?: String, requires_human: Bool,
  tenant_id: String, workflow_type?: String, forward_policy_version?: String, forward_tool: String, age_s?: Long,
  approved_by?: String, evidence: Bool, foreign_reference: Bool, inputs: {%s}
}"""
_SOMEBODY: Final = "somebody"
_ESCAPED: Final = {'"': '\\"', "\\": "\\\\"}


class Cedar:
    """A set of Cedar policies. What it cannot evaluate is denied."""

    def __init__(self, policy: CedarPolicies) -> None:
        self._policy = policy
        self._ids = _ids(policy.policies)

    def ruling(self, asked: Asked) -> Ruling:
        ruling = self._ask(asked, asked.context.approved_by)
        if ruling.decision is Decision.ALLOW:
            if asked.context.requires_human and not asked.context.approved_by:
                return Ruling(decision=Decision.DENY, reason="needs an approval", rule=ruling.rule, needs_human=True)
            return ruling
        if asked.context.approved_by or ruling.rule is not None:
            return ruling
        approved = self._ask(asked, _SOMEBODY)
        if approved.decision is Decision.ALLOW:
            return Ruling(
                decision=Decision.DENY, reason=f"{approved.rule}: needs an approval", rule=approved.rule, needs_human=True
            )
        return ruling

    def _ask(self, asked: Asked, approved_by: str | None) -> Ruling:
        request = {
            "principal": {"type": "Worker", "id": asked.principal},
            "action": {"type": "Action", "id": asked.action},
            "resource": {"type": "Effect", "id": asked.resource},
            "context": self._context(asked, approved_by),
        }
        try:
            answer = cedarpy.is_authorized(request, self._policy.policies, [])
        except Exception as error:  # a foreign engine: whatever it raises, the inverse is denied
            return Ruling(decision=Decision.DENY, reason=f"the policy could not be evaluated: {type(error).__name__}")
        names = ", ".join(self._ids.get(name, name) for name in sorted(answer.diagnostics.reasons)) or None
        if answer.diagnostics.errors:
            # A policy that fails is skipped by Cedar; one that forbids must not be lost that way.
            return Ruling(decision=Decision.DENY, reason=f"the policy failed: {answer.diagnostics.errors[0]}"[:300], rule=names)
        if answer.allowed:
            return Ruling(decision=Decision.ALLOW, reason=f"allowed by {names}", rule=names)
        return Ruling(decision=Decision.DENY, reason=f"denied by {names}" if names else "no policy allows it", rule=names)

    def _context(self, asked: Asked, approved_by: str | None) -> dict[str, Any]:
        known = {name: value for name, value in msgspec.to_builtins(asked.context).items() if value is not None}
        if approved_by is not None:
            known["approved_by"] = approved_by
        if "age_s" in known:
            known["age_s"] = int(known["age_s"])
        typed = {name: _typed(kind, asked.context.inputs.get(name)) for name, kind in self._policy.inputs.items()}
        known["inputs"] = {name: value for name, value in typed.items() if value is not None}
        return known


def _literal(text: str) -> str:
    """*text* as a string of a schema, whose escapes are not those of JSON."""
    return '"' + "".join(_ESCAPED.get(one, one) if one.isprintable() else f"\\u{{{ord(one):x}}}" for one in text) + '"'


def _typed(kind: str, value: Any) -> Any:
    """*value* as the Cedar type *kind*; None where it is none, so that `context.inputs has …` is false."""
    match kind:
        case "Long":
            return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None
        case "decimal":
            return _decimal(value)
        case "Bool":
            return value if isinstance(value, bool) else None
        case _:
            return value if isinstance(value, str) else None


def _decimal(value: Any) -> dict[str, Mapping[str, str]] | None:
    """Cedar's decimals have at most four places and 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value))
        rounded = number.quantize(Decimal("0.0001"), rounding=ROUND_HALF_UP)
    except InvalidOperation:
        return None
    if not rounded.is_finite() or abs(rounded) >= Decimal(2**63) / 10_000:
        return None
    return {"__extn": {"fn": "decimal", "arg": f"{rounded:f}"}}


def problems(policy: CedarPolicies) -> Iterator[Problem]:
    """What is wrong with the text: syntax, and every attribute or type that the context does not have."""
    try:
        parsed = json.loads(cedarpy.policies_to_json_str(policy.policies))
    except ValueError as error:
        yield Problem("policies", f"is not Cedar: {error}"[:500])
        return
    inputs = ", ".join(f"{_literal(name)}?: {kind}" for name, kind in policy.inputs.items())
    actions = sorted(set(_actions(parsed)) | {"any"})
    schema = "entity Worker; entity Effect;\n" + "\n".join(
        f"action {_literal(name)} appliesTo {{ principal: [Worker], resource: [Effect], context: {_CONTEXT % inputs} }};"
        for name in actions
    )
    ids = _ids(policy.policies)
    for found in cedarpy.validate_policies(policy.policies, schema).errors:
        yield Problem(f"policies[{ids.get(found.policy_id, found.policy_id)}]", str(found.error))


def _actions(value: Any) -> Iterator[str]:
    """Ids of all actions that a parsed policy set names."""
    if isinstance(value, dict):
        if value.get("type") == "Action" and isinstance(value.get("id"), str):
            yield value["id"]
        for inner in value.values():
            yield from _actions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _actions(inner)


def _ids(text: str) -> dict[str, str]:
    """Cedar's own names (`policy0`, …) to those that the author gave with `@id`."""
    try:
        parsed = json.loads(cedarpy.policies_to_json_str(text))
    except ValueError:
        return {}
    return {
        name: policy["annotations"]["id"]
        for name, policy in parsed.get("staticPolicies", {}).items()
        if policy.get("annotations", {}).get("id")
    }
