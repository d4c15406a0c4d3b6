"""A second worker of the agent: books the hotel of a trip, in a process of its own that can be frozen."""

import sys

from demo.incident.tools import registry
from landed import Ledger


def main() -> None:
    trip, operation_id = sys.argv[1:]
    tool = registry.tool("book_hotel")
    assert tool is not None
    with Ledger.connect(worker="agent-2", wait=60.0) as ledger:
        result = ledger.group(trip, workflow_type="trip").perform(tool, operation_id=operation_id, trip=trip)
    print(type(result).__name__, getattr(result, "reason", ""), flush=True)


if __name__ == "__main__":
    main()
