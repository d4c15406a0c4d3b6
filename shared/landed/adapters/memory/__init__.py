"""A ledger in one process, for users' tests and first steps: no broker, the same core.

`MemoryLedger` is a log, the projector's decisions about it, and the way back of verdicts; `ManualClock` drives it by hand.
"""

from landed.adapters.memory._clock import ManualClock
from landed.adapters.memory._ledger import MemoryLedger
from landed.adapters.memory._projector import Tables

__all__ = ["ManualClock", "MemoryLedger", "Tables"]
