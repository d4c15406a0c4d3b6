"""The log from its beginning to the end that it has now, as events."""

import time

from landed.adapters.kafka import KafkaSettings, LogReader
from landed.core.events import Entry
from landed.wire.records import read


def read_entries(settings: KafkaSettings, operation_id: str | None = None, *, timeout_s: float = 30.0) -> list[Entry]:
    """Events on the log, in log order within a partition; what cannot be read as one is left out.

    Args:
        operation_id: only events of this operation.
        timeout_s: longest time to read, in seconds; what was read until then is returned.

    Raises:
        LogUnreachable: the broker does not answer.
    """
    reader = LogReader(settings)
    try:
        begins, ends = reader.beginning_offsets(), reader.end_offsets()
        reader.assign(begins)
        left = {partition for partition, end in ends.items() if end > begins[partition]}
        found, deadline = [], time.monotonic() + timeout_s
        while left and time.monotonic() < deadline:
            for record in reader.poll(2_000, 0.2):
                entry = read(record, ring=settings.ring, partitions=reader.partitions)
                if isinstance(entry, Entry) and operation_id in (None, entry.event.operation_id):
                    found.append(entry)
                if record.offset + 1 >= ends[record.partition]:
                    left.discard(record.partition)
        return found
    finally:
        reader.close()
