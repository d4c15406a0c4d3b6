"""One delivery of a provider, from its bytes to evidence on the log.

The tenant is that of the endpoint whose secret signed the delivery; nothing in the body can name another. A delivery is
`Accepted` only once the log has it: a provider that hears anything else sends it again, and that changes nothing twice.
"""

import hashlib
import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from landed.adapters.postgres import DatabaseError
from landed.core import events as ev
from landed.core.contract import Contract, Problem
from landed.core.news import About, News, follows, one_of, received, unmatched
from landed.ports.log import Appended, AppendFailed, EventLog
from landed.ports.news import NewsTables
from landed.ports.time import Clock
from landed.sdk.errors import SettingsError
from landed_services.intake.endpoints import Endpoint, Scheme
from landed_services.intake.reading import Reading, reading, webhook_id
from landed_services.intake.signatures import NotVerified, verified

_LOG = logging.getLogger("landed.intake")
BODY_BYTES_MAX: Final = 262_144


class Why(StrEnum):
    """Why a delivery is refused."""

    UNKNOWN_ENDPOINT = "unknown_endpoint"
    BODY_TOO_LARGE = "body_too_large"
    SIGNATURE_MISSING = "signature_missing"
    SIGNATURE_WRONG = "signature_wrong"
    TIMESTAMP_REFUSED = "timestamp_refused"
    CONTENT_REFUSED = "content_refused"
    WEBHOOK_ID_MISSING = "webhook_id_missing"
    WEBHOOK_ID_REUSED = "webhook_id_reused"
    LEDGER_UNAVAILABLE = "ledger_unavailable"


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The log has it: the provider may forget it."""

    what: Literal["matched", "unmatched", "duplicate"]
    webhook_id: str
    operation_id: str | None = None
    events: tuple[str, ...] = ()
    """Names of what was appended."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing of it was recorded. Only `ledger_unavailable` is worth another delivery."""

    why: Why

    @property
    def transient(self) -> bool:
        return self.why is Why.LEDGER_UNAVAILABLE


class Intake:
    """Takes deliveries; safe under threads.

    Args:
        endpoints: by name.
        contracts: of the team's tools, with `webhook` for those that an endpoint speaks of.
        append_timeout_s: how long an acknowledgement of the log is waited for.

    Raises:
        SettingsError: an endpoint names a tool without such a contract.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        contracts: Iterable[Contract],
        log: EventLog,
        tables: NewsTables,
        clock: Clock,
        *,
        append_timeout_s: float = 10.0,
    ) -> None:
        known = {contract.tool: contract for contract in contracts if contract.webhook is not None}
        missing = [
            Problem(f"endpoint {one.name!r}.tools", f"{tool!r} is no registered tool whose contract declares webhook")
            for one in endpoints.values()
            for tool in one.tools
            if tool not in known
        ]
        if missing:
            raise SettingsError("webhook settings", missing)
        self._endpoints = dict(endpoints)
        self._contracts = known
        self._log = log
        self._tables = tables
        self._clock = clock
        self._append_timeout_s = append_timeout_s
        self._lock = threading.Lock()
        self.counted: Counter[tuple[str, str]] = Counter()
        """Deliveries by endpoint and what became of them; deliveries to no endpoint of ours under `unknown`."""

    def intake(self, endpoint: str, headers: Mapping[str, str], body: bytes) -> Accepted | Refused:
        """Takes one delivery.

        Args:
            endpoint: name under which the provider delivered.
            headers: of the request, names in any case.
            body: the request's body as it came, byte for byte.
        """
        known = self._endpoints.get(endpoint)
        result = Refused(why=Why.UNKNOWN_ENDPOINT) if known is None else self._take(known, headers, body)
        name = "unknown" if known is None else known.name
        became = result.why.value if isinstance(result, Refused) else result.what
        with self._lock:
            self.counted[name, became] += 1
        about: dict[str, Any] = {"action": "webhook", "endpoint": name, "became": became}
        if isinstance(result, Refused):
            _LOG.warning("a delivery is refused", extra=about)
        else:
            _LOG.info("a delivery is taken", extra={**about, "webhook_id": result.webhook_id})
        return result

    def _take(self, endpoint: Endpoint, headers: Mapping[str, str], body: bytes) -> Accepted | Refused:
        if len(body) > BODY_BYTES_MAX:
            return Refused(why=Why.BODY_TOO_LARGE)
        signed = verified(endpoint, headers, body, now_s=self._clock.now_ms() / 1000)
        if isinstance(signed, NotVerified):
            return Refused(why=Why(signed.why))
        message = _message(headers, body)
        if message is None:
            return Refused(why=Why.CONTENT_REFUSED)
        delivery = signed.webhook_id if endpoint.scheme is Scheme.STANDARD else message.get("id")
        name = webhook_id(delivery)
        found = self._news(endpoint, message, name, hashlib.sha256(body).hexdigest())
        if not found:
            return Refused(why=Why.WEBHOOK_ID_MISSING)
        return self._record(found, name)

    def _news(self, endpoint: Endpoint, message: Mapping[str, Any], delivery: str | None, digest: str) -> list[News]:
        """What the endpoint's tools read in *message*; tools that read the same are one."""
        tools: dict[bytes, tuple[Reading, str, list[str]]] = {}
        for tool in endpoint.tools:
            read = reading(self._contracts[tool], message)
            name = read.webhook_id if self._dedupes(tool) else delivery
            if name is not None:
                tools.setdefault(msgspec.json.encode((read, name)), (read, name, []))[2].append(tool)
        return [
            News(
                tenant_id=endpoint.tenant_id,
                endpoint=endpoint.name,
                webhook_id=name,
                tools=tuple(read_by),
                operation_key=read.operation_key,
                reference=read.reference,
                status=read.status,
                provider_time_ms=read.provider_time_ms,
                digest=digest,
                receipt=read.receipt,
                keep_ms=read.keep_ms,
            )
            for read, name, read_by in tools.values()
        ]

    def _dedupes(self, tool: str) -> bool:
        terms = self._contracts[tool].webhook
        return terms is not None and terms.dedupe_by is not None

    def _record(self, found: list[News], delivery: str | None) -> Accepted | Refused:
        first = found[0]
        try:
            for news in found:
                known = self._tables.known(news.tenant_id, news.endpoint, news.webhook_id)
                # Where the contract names what makes news the same, its deliveries may differ in all else.
                if known is not None and known != news.digest and news.webhook_id == delivery:
                    return Refused(why=Why.WEBHOOK_ID_REUSED)
                if known is not None:
                    # What follows from it, and did not before a crash, the matcher appends.
                    return Accepted(what="duplicate", webhook_id=news.webhook_id)
            matched = [(news, about) for news in found if (about := one_of(news, self._tables.about(news))) is not None]
        except DatabaseError:
            # The log alone has to have it; it is matched as soon as the view answers.
            matched = []
        if not matched:
            named = [news for news in found if news.operation_key is not None or news.reference is not None]
            said: list[ev.Event] = [unmatched(news) for news in named or found[:1]]
            return self._append(said, Accepted(what="unmatched", webhook_id=first.webhook_id))
        news, about = matched[0]
        return self._append(
            events_of(news, about),
            Accepted(what="matched", webhook_id=news.webhook_id, operation_id=about.operation.operation_id),
        )

    def _append(self, events: list[ev.Event], result: Accepted) -> Accepted | Refused:
        if not appended(self._log, events, self._append_timeout_s):
            return Refused(why=Why.LEDGER_UNAVAILABLE)
        return msgspec.structs.replace(result, events=tuple(ev.TYPE_OF[type(event)] for event in events))


def events_of(news: News, about: About, *, recorded: bool = False) -> list[ev.Event]:
    """What is to be appended of *news* about an operation, in order; *recorded*: `webhook_received` stands on the log already."""
    outcome = follows(news, about)
    before: list[ev.Event] = [] if recorded else [received(news, about)]
    return before if outcome is None else [*before, outcome]


def appended(log: EventLog, events: list[ev.Event], timeout_s: float) -> bool:
    """Whether the log acknowledged all *events*; else some may be on it, and saying them again changes nothing."""
    try:
        futures: list[Future[Appended]] = [log.append(event) for event in events]
        for future in futures:
            future.result(timeout_s)
    except (AppendFailed, TimeoutError) as error:
        _LOG.warning("not acknowledged", extra={"action": "append_unknown", "error_class": type(error).__name__})
        return False
    return True


def _message(headers: Mapping[str, str], body: bytes) -> dict[str, Any] | None:
    content = next((value for name, value in headers.items() if name.lower() == "content-type"), "application/json")
    if content.partition(";")[0].strip().lower() not in ("application/json", "application/cloudevents+json"):
        return None
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
