"""What importing the SDK costs: time and resident memory beyond a bare interpreter."""

import subprocess
import sys

_SCRIPT = """
import time
def resident():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])
before, began = resident(), time.perf_counter()
from landed import AsyncLedger, Ledger, effect
{then}
print((time.perf_counter() - began) * 1000, (resident() - before) / 1024)
"""


def imported(*, with_kafka: bool) -> tuple[float, float]:
    """Milliseconds and mebibytes."""
    script = _SCRIPT.format(then="import landed.adapters.kafka" if with_kafka else "")
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    took_ms, took_mib = done.stdout.split()
    return float(took_ms), float(took_mib)
