"""What the ledger needs from the world, as protocols. Adapters satisfy them structurally."""

from landed.ports.log import Appended, AppendFailed, EventLog, NothingAppended, VerdictInbox
from landed.ports.tables import DueOperation, DueOperations, ProviderBudgets
from landed.ports.time import Clock, Ids

__all__ = [
    "AppendFailed",
    "Appended",
    "Clock",
    "DueOperation",
    "DueOperations",
    "EventLog",
    "Ids",
    "NothingAppended",
    "ProviderBudgets",
    "VerdictInbox",
]
