"""A ledger for the side effects of tool calls: each intended effect at most once, and an honest answer about every one.

    from landed import Ledger, effect

Importing this package is quick and connects nothing; its names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from landed.core.contract import Compensation as Compensation
    from landed.core.contract import Contract as Contract
    from landed.core.contract import Effect as Effect
    from landed.core.contract import OperationKey as OperationKey
    from landed.core.contract import Probe as Probe
    from landed.core.contract import Requires as Requires
    from landed.core.contract import Verify as Verify
    from landed.core.contract import Webhook as Webhook
    from landed.sdk.async_ledger import AsyncGroup as AsyncGroup
    from landed.sdk.async_ledger import AsyncLedger as AsyncLedger
    from landed.sdk.classify import Raised as Raised
    from landed.sdk.classify import Returned as Returned
    from landed.sdk.classify import raised as raised
    from landed.sdk.errors import ContractError as ContractError
    from landed.sdk.errors import LandedError as LandedError
    from landed.sdk.errors import LedgerGone as LedgerGone
    from landed.sdk.errors import LedgerUnavailable as LedgerUnavailable
    from landed.sdk.errors import NoOperation as NoOperation
    from landed.sdk.errors import NotSent as NotSent
    from landed.sdk.errors import RequestError as RequestError
    from landed.sdk.errors import SettingsError as SettingsError
    from landed.sdk.errors import ToolError as ToolError
    from landed.sdk.errors import UnrecordedCall as UnrecordedCall
    from landed.sdk.intent import Intent as Intent
    from landed.sdk.intent import intent_for as intent_for
    from landed.sdk.intent import intent_of as intent_of
    from landed.sdk.ledger import Group as Group
    from landed.sdk.ledger import Ledger as Ledger
    from landed.sdk.listing import Listed as Listed
    from landed.sdk.listing import ListRequest as ListRequest
    from landed.sdk.operation import CurrentOperation as CurrentOperation
    from landed.sdk.operation import current_operation as current_operation
    from landed.sdk.probes import Absent as Absent
    from landed.sdk.probes import Ambiguous as Ambiguous
    from landed.sdk.probes import Found as Found
    from landed.sdk.probes import ProbeAnswer as ProbeAnswer
    from landed.sdk.probes import ProbeRequest as ProbeRequest
    from landed.sdk.providers import Access as Access
    from landed.sdk.registry import ToolRegistry as ToolRegistry
    from landed.sdk.registry import load_registry as load_registry
    from landed.sdk.results import Confirmed as Confirmed
    from landed.sdk.results import Escalated as Escalated
    from landed.sdk.results import Pending as Pending
    from landed.sdk.results import Refused as Refused
    from landed.sdk.results import Rejected as Rejected
    from landed.sdk.results import Result as Result
    from landed.sdk.results import Unknown as Unknown
    from landed.sdk.settings import Settings as Settings
    from landed.sdk.settings import settings_from as settings_from
    from landed.sdk.staging import Stage as Stage
    from landed.sdk.token import Execute as Execute
    from landed.sdk.tools import Tool as Tool
    from landed.sdk.tools import effect as effect
    from landed.sdk.tools import without_contract as without_contract

_NAMES = {
    "landed.core.contract": (
        "Compensation",
        "Contract",
        "Effect",
        "OperationKey",
        "Probe",
        "Requires",
        "Verify",
        "Webhook",
    ),
    "landed.sdk.async_ledger": ("AsyncGroup", "AsyncLedger"),
    "landed.sdk.classify": ("Raised", "Returned", "raised"),
    "landed.sdk.errors": (
        "ContractError",
        "LandedError",
        "LedgerGone",
        "LedgerUnavailable",
        "NoOperation",
        "NotSent",
        "RequestError",
        "SettingsError",
        "ToolError",
        "UnrecordedCall",
    ),
    "landed.sdk.intent": ("Intent", "intent_for", "intent_of"),
    "landed.sdk.ledger": ("Group", "Ledger"),
    "landed.sdk.listing": ("ListRequest", "Listed"),
    "landed.sdk.operation": ("CurrentOperation", "current_operation"),
    "landed.sdk.probes": ("Absent", "Ambiguous", "Found", "ProbeAnswer", "ProbeRequest"),
    "landed.sdk.providers": ("Access",),
    "landed.sdk.registry": ("ToolRegistry", "load_registry"),
    "landed.sdk.results": ("Confirmed", "Escalated", "Pending", "Refused", "Rejected", "Result", "Unknown"),
    "landed.sdk.settings": ("Settings", "settings_from"),
    "landed.sdk.staging": ("Stage",),
    "landed.sdk.token": ("Execute",),
    "landed.sdk.tools": ("Tool", "effect", "without_contract"),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULE_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return __all__
