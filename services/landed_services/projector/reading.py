"""What a record is to the fold: `landed_services/reading.py`, which a replay reads through as well."""

from landed_services.reading import (
    DAMAGED,
    KEY_BYTES_KEPT,
    Freezing,
    Item,
    Refused,
    Skipped,
    first_bytes,
    read_item,
    record_digest,
)

__all__ = [
    "DAMAGED",
    "KEY_BYTES_KEPT",
    "Freezing",
    "Item",
    "Refused",
    "Skipped",
    "first_bytes",
    "read_item",
    "record_digest",
]
