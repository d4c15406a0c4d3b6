"""What both sides of the door to the destination name alike."""

from typing import Final

PROVIDER_URL: Final = "BENCH_IRREVON_PROVIDER"
"""Setting of the benchmark: where the harness serves the destination."""
ASKED_BY: Final = "X-Asked-By"
"""Header: process id of whoever looks an effect up, so that the harness can kill it in the middle of a look."""
