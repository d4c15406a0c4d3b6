"""What a turn writes to the log of the service: alarms of the fold, records that are not taken."""

import logging
from collections.abc import Iterable
from typing import Any, Final

import structlog

from landed.adapters.postgres.rows import Row
from landed.core import events as ev

# Through the standard library, so that a projector inside another process logs where and as that process wants it.
LOG: Final[Any] = structlog.wrap_logger(
    logging.getLogger("landed.projector"),
    processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
    wrapper_class=structlog.stdlib.BoundLogger,
)


def tell_alarms(alarms: Iterable[tuple[str, ev.Entry]]) -> None:
    """Each event about which somebody must know, with the reason."""
    for reason, entry in alarms:
        event = entry.event
        LOG.error(
            reason,
            action="event_alarmed",
            tenant_id=event.tenant_id,
            route=event.route,
            operation_id=event.operation_id,
            event_id=event.event_id,
            partition=entry.position.partition,
            offset=entry.position.offset,
        )


def tell_refused(rows: Iterable[Row]) -> None:
    """Each record that was put aside, by its row."""
    for row in rows:
        LOG.warning("record refused", action="record_refused", partition=row[0], offset=row[1], reason=row[2], froze=row[8])
