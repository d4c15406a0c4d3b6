"""The parts of one ledger, put together in one place, and what its sync and async faces share."""

import inspect
import os
import re
from collections.abc import Generator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from landed.adapters.system import RandomIds, SystemClock
from landed.core import events as ev
from landed.core.contract import Problem
from landed.core.identity import RequestError, check_id, normalized, route_of
from landed.core.statements import STATEMENTS
from landed.ports import Appended, Clock, EventLog, Ids, VerdictInbox
from landed.sdk.drivers import Doors
from landed.sdk.errors import LedgerGone, LedgerUnavailable, SettingsError
from landed.sdk.intent import Intent
from landed.sdk.leases import Leases
from landed.sdk.outbox import Outbox
from landed.sdk.protocol import Options, Protocol
from landed.sdk.reads import read
from landed.sdk.requests import Record, Request
from landed.sdk.results import Result
from landed.sdk.schedule import Schedule
from landed.sdk.settings import Settings
from landed.sdk.tools import Tool
from landed.wire.errors import EncodeError
from landed.wire.ids import with_event_id
from landed.wire.registry import URL_SETTING

_E = TypeVar("_E", bound=ev.Event)
_SHA256: Final = re.compile("[0-9a-f]{64}")


class Parts:
    """Log, inbox, background thread and protocol of one ledger in one process."""

    def __init__(
        self,
        settings: Settings,
        log: EventLog,
        inbox: VerdictInbox,
        *,
        suspend_on: tuple[type[BaseException], ...] = (),
        clock: Clock | None = None,
        ids: Ids | None = None,
        threaded: bool = True,
    ) -> None:
        self.settings: Final = settings
        self.log: Final = log
        self.inbox: Final = inbox
        self.clock: Final = clock or SystemClock()
        self.ids: Final = ids or RandomIds()
        self.schedule: Final = Schedule(self.clock, threaded=threaded)
        self.outbox: Final = Outbox(log, self.schedule, self.clock, keep_trying_s=settings.keep_trying)
        self.doors: Final = Doors(log, inbox, self.outbox, suspend_on)
        options = Options(
            tenant_id=settings.tenant,
            worker=settings.worker,
            reply_to=inbox.reply_to,
            wait_s=settings.wait,
            record_wait_s=settings.record_wait,
            digest_key=settings.digest_key,
            suspend_on=suspend_on,
        )
        self._options = options
        self._leases = Leases(log, self.schedule, self.clock, actor=settings.worker)
        self.protocol: Final = self.protocol_for(settings.tenant)
        self._process = os.getpid()
        self._closed = False

    def protocol_for(self, tenant_id: str) -> Protocol:
        """The protocol for another tenant, over the same log, leases and outbox."""
        options = msgspec.structs.replace(self._options, tenant_id=tenant_id)
        return Protocol(options, clock=self.clock, ids=self.ids, leases=self._leases, outbox=self.outbox)

    def check(self) -> None:
        """Raises `LedgerGone` where this ledger cannot work: its threads and connections do not survive a fork."""
        if self._closed:
            raise LedgerGone("this ledger was closed: connect again")
        if os.getpid() != self._process:
            raise LedgerGone("this ledger was connected before the process was forked: connect again in the child")

    def close(self, timeout_s: float) -> None:
        """Waits for what was sent, at most *timeout_s* seconds, and ends; a second call does nothing."""
        if self._closed or os.getpid() != self._process:
            return
        self._closed = True
        until_s = self.clock.monotonic() + timeout_s
        self.outbox.flush(timeout_s)
        self.schedule.close()
        self.log.close(max(0.0, until_s - self.clock.monotonic()))
        self.outbox.close()
        self.inbox.close()

    def group_event(self, kind: type[_E], group_id: str, **fields: Any) -> _E:
        """An event of a group, with its id.

        Raises:
            RequestError: a field is not of its type.
        """
        event = kind(
            event_id="", tenant_id=self.settings.tenant, route=group_id, group_id=group_id, actor=self.settings.worker, **fields
        )
        try:
            return with_event_id(event)
        except EncodeError as error:
            raise RequestError(Problem(error.field, error.rule)) from None


def statement_of(parts: Parts, operation_id: str, claimed_state: str, message_digest: str, group_id: str | None) -> ev.Event:
    """The event that an agent told its user something about an operation.

    Raises:
        RequestError: an id breaks a rule, the state is none of `STATEMENTS`, or the digest is no SHA-256 in hex.
    """
    check_id("operation_id", operation_id, inverse_allowed=True)
    if group_id is not None:
        check_id("group_id", group_id)
    if claimed_state not in STATEMENTS:
        raise RequestError(Problem("claimed_state", f"must be one of {', '.join(STATEMENTS)}"))
    if not (isinstance(message_digest, str) and _SHA256.fullmatch(message_digest)):
        raise RequestError(Problem("message_digest", "must be a SHA-256 as 64 lower-case hexadecimal digits"))
    return with_event_id(
        ev.AgentStatement(
            event_id="",
            tenant_id=parts.settings.tenant,
            route=route_of(operation_id, group_id),
            operation_id=operation_id,
            group_id=group_id,
            actor=parts.settings.worker,
            message_digest=message_digest,
            claimed_state=str(claimed_state),
        )
    )


def connected(settings: Settings) -> tuple[EventLog, VerdictInbox]:
    """Log and inbox of *settings*; the Kafka client is imported only here.

    Raises:
        LedgerUnavailable: no broker or schema registry answers, or the broker does not have the topic.
        SettingsError: the schema registry of the settings cannot be used; says what to do.
    """
    if settings.bootstrap is None:
        from landed.adapters.memory import MemoryLedger

        memory = MemoryLedger()
        return memory, memory
    from landed.adapters.kafka import (
        KafkaEventLog,
        KafkaSettings,
        KafkaVerdictInbox,
        LogUnreachable,
        RegistryUnfit,
        RegistryUnreachable,
    )

    kafka = KafkaSettings(
        bootstrap=settings.bootstrap,
        topic=settings.topic,
        replies_topic=settings.replies_topic,
        ring=settings.ring,
        client_id=settings.worker,
        registry=settings.registry,
        cloud_events=settings.cloud_events,
    )
    log: KafkaEventLog | None = None
    try:
        log = KafkaEventLog(kafka)
        # A name of its own for each ledger: two of one process must not take each other's verdicts for strangers'.
        return log, KafkaVerdictInbox(kafka, f"{settings.worker}:{RandomIds().random_id()}")
    except RegistryUnfit as error:
        raise SettingsError("settings", [Problem(URL_SETTING, str(error))]) from error
    except (LogUnreachable, RegistryUnreachable) as error:
        if log is not None:
            log.close(0.0)
        raise LedgerUnavailable(str(error)) from error


def checked_group(group_id: str, workflow_type: str, parent_group: str | None, intent_ref: str | None) -> None:
    """Raises `RequestError` where a group cannot be opened under these names."""
    check_id("group_id", group_id)
    check_id("workflow_type", workflow_type)
    if parent_group is not None:
        check_id("parent_group", parent_group)
    if intent_ref is not None:
        check_id("intent_ref", intent_ref)


def performed(parts: Parts, tool: Tool[..., Any], intent: Intent) -> Generator[Request, Any, Result]:
    """The steps of performing *tool*: a read needs no claim."""
    if tool.contract.read_only:
        claim_id = parts.ids.random_id()
        return read(intent, tool.function, tenant_id=parts.settings.tenant, claim_id=claim_id, clock=parts.clock)
    return parts.protocol.perform(intent, tool.function, tool.verify_function)


def refuse_async(tool: Tool[..., Any]) -> None:
    if tool.is_async or inspect.iscoroutinefunction(tool.verify_function):
        raise RequestError(Problem("tool", f"{tool.name!r} is async: perform it through AsyncLedger"))


def recorded(event: ev.Event, wait_s: float) -> Generator[Request, Any, Appended | None]:
    """One event, with its acknowledgement."""
    appended: Appended | None = yield Record(event=event, wait_s=wait_s)
    return appended


def inputs_json(inputs: Mapping[str, Any] | None) -> str | None:
    """JSON of the inputs of an unwinding.

    Raises:
        RequestError: they are not JSON.
    """
    if inputs is None:
        return None
    if not isinstance(inputs, Mapping):
        raise RequestError(Problem("inputs", f"must be a mapping by operation id, got {type(inputs).__name__}"))
    return msgspec.json.encode(normalized(inputs), order="deterministic").decode()
