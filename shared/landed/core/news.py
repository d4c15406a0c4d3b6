"""News from providers: what a message says about an operation, and which event follows from it. Pure; the intake runs it.

A message is recorded first (`webhook_received`, or `unmatched_news` while nobody knows its operation) and moves nothing. What
follows from it is a second event that names it. Both are made from the message and the operation alone, under ids that follow
from the provider's id of the message: said again by another process, or after a crash, they change nothing.

Source: docs/semantics.md §3, §4 (`webhook`); docs/events.md, "News from providers".
"""

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from landed.core import events as ev
from landed.core.contract import Contract
from landed.core.state import Operation
from landed.core.vocabulary import Source, State

INTAKE: Final = "intake"
"""Actor of what webhooks say: all intakes are one actor, so two of them that take the same delivery append one event."""
ROUTE: Final = "news:"
"""Route of news that matches no operation: `news:` and the endpoint."""
_LABEL: Final = b"landed.news.v1"


class News(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a provider, reduced to what is declared."""

    tenant_id: str
    endpoint: str
    webhook_id: str
    tools: tuple[str, ...]
    """Tools that the endpoint may speak of and that read the message so: it matches an operation of no other."""
    operation_key: str | None = None
    reference: str | None = None
    status: str
    provider_time_ms: int | None = None
    digest: str
    """SHA-256 (hex) of the message as it came."""
    receipt: str | None = None
    keep_ms: int = 0


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The operation that news speaks of, as the view shows it."""

    route: str
    group_id: str | None
    operation: Operation


def received(news: News, about: About) -> ev.WebhookReceived:
    """The record that *news* came and speaks of this operation; kept only while something may follow."""
    body = _body(news, "webhook_received", about)
    return msgspec.convert(body if _may_follow(news, about.operation) else {**body, "keep_ms": 0}, ev.WebhookReceived)


def unmatched(news: News) -> ev.UnmatchedNews:
    """The record that *news* came and matches no operation as yet."""
    return msgspec.convert(_body(news, "unmatched_news", None), ev.UnmatchedNews)


def one_of(news: News, candidates: Iterable[About]) -> About | None:
    """The operation that *news* names: by its id, else by a reference on record; None where none does, or several do.

    Only an operation of a tool that the endpoint may speak of, with an intent on record: an id alone is no operation.
    """
    known = {(one.route, one.operation.operation_id): one for one in candidates}
    own = [one for one in known.values() if one.operation.tool in news.tools]
    named = [one for one in own if one.operation.operation_id == news.operation_key] or [
        one for one in own if any(known.value == news.reference for known in one.operation.references)
    ]
    return named[0] if len(named) == 1 else None


def _may_follow(news: News, operation: Operation) -> bool:
    contract = operation.contract
    if contract is None or contract.webhook is None:
        return False
    terms = contract.webhook
    return news.status in (*terms.confirmed_when, *contract.removed_when, *terms.rejected_when, *terms.reverted_when)


def follows(news: News, about: About) -> ev.OutcomeConfirmed | ev.OutcomeRejected | ev.EffectReverted | None:
    """What *news* proves about its operation; None where nothing follows, or nothing yet.

    Nothing follows from a word that the contract does not name, from a message that is older than another about the same
    reference, nor from a removal without a time. Nothing follows yet from a failure while the call runs (only its holder may say
    so, §3), and from a reversal of what is not confirmed: news that is kept is asked about again when the operation has moved.
    """
    operation = about.operation
    contract = operation.contract
    if contract is None or contract.webhook is None or operation.final or _is_history(news, operation):
        return None
    terms, status = contract.webhook, news.status
    if status in terms.confirmed_when:
        return _confirmed(news, about, removed=False)
    if status in contract.removed_when and news.provider_time_ms is not None:
        return _confirmed(news, about, removed=True)
    if status in terms.rejected_when:
        return None if operation.state in _TOO_EARLY_TO_FAIL else _rejected(news, about, contract)
    if status in terms.reverted_when and operation.state in _MAY_BE_REVERTED:
        said = {**_outcome(news, "effect_reverted", about), "evidence": news.receipt}
        return msgspec.convert(said, ev.EffectReverted)
    return None


_TOO_EARLY_TO_FAIL: Final = frozenset({State.NONE, State.PREPARED, State.DISPATCHED})
_MAY_BE_REVERTED: Final = frozenset({State.CONFIRMED, State.COMPENSATED})


def _is_history(news: News, operation: Operation) -> bool:
    newest = operation.news.get(news.reference or "")
    return newest is not None and news.provider_time_ms is not None and news.provider_time_ms < newest


def _confirmed(news: News, about: About, *, removed: bool) -> ev.OutcomeConfirmed:
    name = "operation_id" if news.operation_key == about.operation.operation_id else "reference"
    said = _outcome(news, "outcome_confirmed", about)
    if removed:
        said["removed_at_ms"] = news.provider_time_ms
    return msgspec.convert({**said, "receipt": news.receipt, "matched_on": [name]}, ev.OutcomeConfirmed)


def _rejected(news: News, about: About, contract: Contract) -> ev.OutcomeRejected:
    """Of which attempt a failure speaks decides whether another is allowed: where that is not certain it names none.

    It is certain of a reference that one attempt brought, of the only attempt, and under a key that the provider honours for all.
    """
    operation = about.operation
    number = next((known.attempt for known in operation.references if known.value == news.reference), None)
    if number is None and operation.last is not None and (operation.attempts_counted == 1 or contract.key_honoured):
        number = operation.last.number
    said = _outcome(news, "outcome_rejected", about, number)
    return msgspec.convert({**said, "attempt": number, "error_code": news.status, "evidence": news.receipt}, ev.OutcomeRejected)


def _outcome(news: News, name: str, about: About, attempt: int | None = None) -> dict[str, Any]:
    return {
        **_envelope(news, name, about, "" if attempt is None else str(attempt)),
        "source": Source.WEBHOOK,
        "webhook_id": news.webhook_id,
        "reference": news.reference,
        "provider_time_ms": news.provider_time_ms,
    }


def _body(news: News, name: str, about: About | None) -> dict[str, Any]:
    fields = msgspec.structs.asdict(news)
    return {**fields, **_envelope(news, name, about, "" if about is not None else "\0".join(news.tools))}


def _envelope(news: News, name: str, about: About | None, part: str) -> dict[str, Any]:
    operation_id = None if about is None else about.operation.operation_id
    names = (news.tenant_id, news.endpoint, news.webhook_id, name, operation_id or "", part)
    digest = hashlib.sha256(b"\0".join((_LABEL, *(text.encode("utf-8", "surrogatepass") for text in names))))
    return {
        "event_id": digest.hexdigest()[:32],
        "tenant_id": news.tenant_id,
        "route": f"{ROUTE}{news.endpoint}" if about is None else about.route,
        "operation_id": operation_id,
        "group_id": None if about is None else about.group_id,
        "actor": INTAKE,
        # What a provider says depends on nothing that the ledger knows: told twice, it must be the same event.
        "seen_version": 0,
    }
