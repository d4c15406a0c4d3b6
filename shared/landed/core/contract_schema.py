"""The JSON Schema of contract files, made from the types: what the loader takes, the schema allows, and nothing else.

What a schema cannot say (a rule between two fields) is told by `contract_rules`.
"""

from typing import Any, Final

import msgspec

from landed.core.contract import Contract
from landed.core.contract_words import MEANING

SCHEMA_ID: Final = "urn:landed:contracts"
_PARTS_OF: Final = {
    "Effect": "effect",
    "OperationKey": "operation_key",
    "Verify": "verify",
    "Probe": "outcome_probe",
    "Webhook": "webhook",
    "Compensation": "compensation",
    "Requires": "compensation.requires",
}
_BOUNDS: Final[dict[str, dict[str, Any]]] = {
    "tool": {"minLength": 1},
    "effect.kind": {"minLength": 1},
    "lease": {"exclusiveMinimum": 0},
    "max_interval": {"exclusiveMinimum": 0},
    "deadline": {"exclusiveMinimum": 0},
    "longest_processing": {"minimum": 0},
    "safe_window": {"minimum": 0},
    "first_check_after": {"minimum": 0},
    "backoff": {"minimum": 1},
    "max_attempts": {"minimum": 1},
    "max_checks": {"minimum": 1},
    "minimum_evidence": {"minItems": 1},
    "outcome_probe.lag": {"minimum": 0},
    "webhook.keep_unmatched": {"minimum": 0},
    "compensation.safe_when": {"minItems": 1},
    "compensation.input_from": {"minItems": 1},
}
_TEXTS: Final = {"type": "array", "items": {"type": ["string", "integer", "boolean"]}}
_CODES: Final = ("no_effect_errors", "already_exists_errors", "removed_when", "compensation.gone_errors", "compensation.next_on")


def contracts_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a file of contracts: one, a list, or an object with `contracts`."""
    _, parts = msgspec.json.schema_components([Contract], ref_template="#/$defs/{name}")
    definitions: dict[str, Any] = dict(sorted(parts.items()))
    for name, definition in definitions.items():
        if name in _PARTS_OF or name == "Contract":
            prefix = "" if name == "Contract" else f"{_PARTS_OF[name]}."
            for field, schema in definition["properties"].items():
                path = prefix + field
                definition["properties"][field] = _described(_shorter(path, schema), path)
        definition.pop("description", None)
        definition.pop("title", None)
    several = {"type": "array", "items": {"$ref": "#/$defs/Contract"}}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "Contracts of tools with effects",
        "anyOf": [
            {"$ref": "#/$defs/Contract"},
            several,
            {
                "type": "object",
                "properties": {"$schema": {"type": "string"}, "contracts": several},
                "required": ["contracts"],
                "additionalProperties": False,
            },
        ],
        "$defs": definitions,
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
    return plain


def _described(schema: dict[str, Any], path: str) -> dict[str, Any]:
    return {"description": MEANING[path], **schema, **_BOUNDS.get(path, {})}


def _shorter(path: str, schema: dict[str, Any]) -> dict[str, Any]:
    """*schema* with the shorter ways of writing that `contract_form` takes."""
    default = {"default": schema["default"]} if "default" in schema else {}
    match path:
        case "effect":
            return {"anyOf": [schema, {"type": "string", "minLength": 1}]}
        case "effect.reversible":
            return {"enum": [True, False, "true", "false", "conditional"], **default}
        case "outcome_probe" | "verify" | "webhook":
            return {"anyOf": [*schema["anyOf"], {"type": "string"}], **default}
        case "compensation":
            one = {"anyOf": [schema["items"], {"type": "string"}]}
            return {"anyOf": [one, {"type": "array", "items": one}], **default}
        case "compensation.input_from":
            return {"anyOf": [schema["items"], {"type": "array", "items": schema["items"], "minItems": 1}], **default}
        case "success_when":
            return {"type": "object", "additionalProperties": {"type": ["string", "integer", "boolean"]}, **default}
        case _ if path in _CODES:
            return {**_TEXTS, **default}
        case _:
            return schema
