"""Errors of the log adapter: what the driver says, in words of the ledger.

LogError
├── LogUnreachable    the broker did not answer in time: try again, or check LANDED_KAFKA_BOOTSTRAP
├── RegistryError     registry: the schema registry is out of reach (RegistryUnreachable), or lacks something (RegistryUnfit)
├── TopicUnfit        the topic is missing or has settings that the guarantees do not hold on: look at it
└── LogTruncated      the log no longer holds the offset that was asked for: stop and repair
"""

from landed.core.errors import LandedError


class LogError(LandedError):
    """Something about the log, not about one event."""


class LogUnreachable(LogError):
    pass


class TopicUnfit(LogError):
    pass


class LogTruncated(LogError):
    def __init__(self, partition: int, offset: int) -> None:
        super().__init__(
            f"partition {partition}: the log does not hold offset {offset} any more (truncated, replaced or restored). "
            "Nothing is decided on this partition. See docs/operations.md, 'The log does not continue'."
        )
        self.partition = partition
        self.offset = offset
