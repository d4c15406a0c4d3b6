"""The protocol of performing an operation, written once: generators that yield requests and receive replies (semantics.md §6).

Sync, async and test drivers pump the same generators. `perform` is `begin`, then the call, then `finish`; framework adapters and
other doors use the parts. What each step protects:

* The claim is on the log before anything is called, and only a granted verdict leads to a call. No verdict in time: not called,
  and the claim is withdrawn in the background.
* Right before the call the arguments are hashed once more and the lease is checked, with nothing in between.
* After the call exactly one outcome is appended. Nothing here calls a second time.
* Whoever is interrupted (a cancelled task, Ctrl-C) leaves a withdrawn claim behind if nothing was called, else an `unknown`.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from landed.core import events as ev
from landed.core.contract import Problem
from landed.core.identity import RequestError, request_hash
from landed.core.verdict import Verdict
from landed.core.vocabulary import BytesLeft, EffectStatus, Refusal
from landed.ports import Appended, Clock, Ids
from landed.sdk import outcomes
from landed.sdk.classify import CallOutcome, InDoubt, Raised, Succeeded, classify, raised
from landed.sdk.intent import Intent, asked_again, hash_of, prepared
from landed.sdk.leases import Lease, Leases
from landed.sdk.operation import CurrentOperation
from landed.sdk.outbox import Outbox
from landed.sdk.probes import Found, ProbeRequest
from landed.sdk.requests import Ask, Call, Hear, Look, NotBegun, Post, Record, Request
from landed.sdk.results import Refused, Result, Unknown
from landed.sdk.settings import Secret
from landed.sdk.token import Execute
from landed.sdk.tools import ProbeFunction
from landed.sdk.verdicts import result_of
from landed.testing.failure_points import reach

Steps: TypeAlias = Generator[Request, Any, Any]
LEASE_OVER: Final = "lease_over"
_FIRST_LOOK_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
"""Pauses after which a caller that waits for an approval asks again, should nobody tell it."""
MUTATED: Final = "the arguments were changed after they were claimed"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How one ledger performs; durations in seconds."""

    tenant_id: str
    worker: str
    reply_to: str
    wait_s: float
    record_wait_s: float
    digest_key: Secret | None
    suspend_on: tuple[type[BaseException], ...]


class Protocol:
    """The steps of one ledger."""

    def __init__(self, options: Options, *, clock: Clock, ids: Ids, leases: Leases, outbox: Outbox) -> None:
        self._options = options
        self._clock = clock
        self._ids = ids
        self._leases = leases
        self._outbox = outbox
        self._granted: set[str] = set()
        """Claims whose one call was not made yet."""
        self._held: dict[str, tuple[Lease, int]] = {}
        """Leases of calls that holders of tokens make themselves, by claim, with the start of the call."""

    # ---- begin --------------------------------------------------------------------------------------------------------

    def begin(self, intent: Intent) -> Generator[Request, Any, Execute | Result]:
        """Claims *intent*. `Execute`: one call may be made now; else what the ledger already knows, or why it refuses.

        Where a person has to approve first, waits as long as the policy says, and claims anew when it hears that somebody
        decided. What it hears is only a hint, and a caller that hears nothing asks again now and then.
        """
        claim_id, begun = yield from self._asked(intent)
        began_s, slept_s, pause_s = self._clock.monotonic(), 0.0, _FIRST_LOOK_S
        while (wait_s := _approval_wait_s(begun)) and intent.replay_reason is None:
            # The sum of the pauses as well as the clock: a clock that is driven by hand may stand still.
            left_s = wait_s - max(slept_s, self._clock.monotonic() - began_s)
            if left_s <= 0:
                break
            heard = yield Hear(claim_id=claim_id, wait_s=min(pause_s, left_s))
            slept_s += 0.0 if heard else min(pause_s, left_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            claim_id, begun = yield from self._asked(intent)
        return begun

    def _asked(self, intent: Intent) -> Generator[Request, Any, tuple[str, Execute | Result]]:
        """One claim of *intent*: its id and its answer."""
        wait_s = self._options.wait_s if intent.wait_s is None else intent.wait_s
        hashed = hash_of(intent)
        claim = self._claim(intent, hashed, wait_s)
        event = self._claimed(intent, claim, hashed)
        reach("sdk.before_claim")
        sent_s = self._clock.monotonic()
        try:
            verdict = yield Ask(event=event, claim_id=claim.claim_id, wait_s=wait_s)
        except BaseException:
            yield Post(event=outcomes.withdrawn(event, claim, "the caller is gone"))
            raise
        if verdict is None:
            reach("sdk.before_withdrawal")
            yield Post(event=outcomes.withdrawn(event, claim, "no verdict in time"))
            detail = {"waited_s": f"{wait_s:g}"}
            refused = Refused(operation_id=intent.operation_id, reason=Refusal.LEDGER_UNAVAILABLE, detail=detail)
            return claim.claim_id, refused
        reach("sdk.verdict_received")
        if not verdict.granted:
            return claim.claim_id, result_of(verdict)
        self._granted.add(claim.claim_id)
        return claim.claim_id, self._token(intent, hashed, event, verdict, sent_s)

    def _claimed(self, intent: Intent, claim: ev.Claim, hashed: str) -> ev.Event:
        tenant_id, actor = self._options.tenant_id, self._options.worker
        if intent.replay_reason is not None:
            return asked_again(intent, claim, tenant_id=tenant_id, actor=actor)
        key = None if self._options.digest_key is None else self._options.digest_key.value
        return prepared(intent, claim, tenant_id=tenant_id, actor=actor, digest_key=key, hashed=hashed)

    def _claim(self, intent: Intent, hashed: str, wait_s: float) -> ev.Claim:
        now_ms = self._clock.now_ms()
        return ev.Claim(
            claim_id=self._ids.random_id(),
            request_hash=hashed,
            worker=self._options.worker,
            reply_to=self._options.reply_to,
            lease_ms=round(intent.contract.lease * 1000),
            asked_at_ms=now_ms,
            answer_by_ms=now_ms + round(wait_s * 1000),
            approval_id=intent.approval_id,
            retry=intent.retry,
            replay=intent.replay_reason is not None,
            replay_reason=intent.replay_reason,
        )

    def _token(self, intent: Intent, hashed: str, event: ev.Event, verdict: Verdict, sent_s: float) -> Execute:
        return Execute(
            tenant_id=event.tenant_id,
            route=event.route,
            operation_id=intent.operation_id,
            group_id=event.group_id,
            claim_id=verdict.claim_id,
            attempt=verdict.attempt or 0,
            request_hash=hashed,
            contract=intent.contract,
            # Let through by observe mode there is no lease on the log: the call counts the one that was asked for.
            lease_ms=verdict.lease_ms or round(intent.contract.lease * 1000),
            granted_at_ms=verdict.at_ms,
            sent_s=sent_s,
            version=verdict.version,
            observe=verdict.observe,
            own_try=verdict.own_try,
            gone=verdict.gone,
        )

    # ---- the call -----------------------------------------------------------------------------------------------------

    def perform(
        self, intent: Intent, function: Callable[..., Any], verify: ProbeFunction | None
    ) -> Generator[Request, Any, Result]:
        """Begins *intent*, calls *function* if that is granted, and records what came of it."""
        begun = yield from self.begin(intent)
        if not isinstance(begun, Execute):
            return begun
        self._granted.discard(begun.claim_id)
        lease = self._leases.keep(begun)
        call = self._call(intent, begun, lease, function)
        dispatched_at_ms = self._clock.now_ms()
        try:
            outcome = yield call
        except BaseException as error:
            yield from self._interrupted(begun, call, error, dispatched_at_ms)
            raise
        finally:
            if not call.left_running:
                self._leases.drop(lease)
        if isinstance(outcome, NotBegun):
            reach("sdk.before_release")
            yield Post(event=outcomes.released(begun, self._options.worker, outcome.reason))
            return _not_begun(begun, outcome.reason)
        if call.left_running:
            return self._unknown(begun, "still_running")
        return (yield from self._finished(begun, lease, outcome, verify, dispatched_at_ms))

    def _call(self, intent: Intent, token: Execute, lease: Lease, function: Callable[..., Any]) -> Call:
        arguments = dict(intent.arguments)
        key = token.contract.operation_key
        if key is not None and key.argument is not None:
            arguments[key.argument] = token.operation_id

        def check() -> str | None:
            return self._not_now(token, lease, arguments)

        def late(outcome: CallOutcome | NotBegun) -> None:
            self._leases.drop(lease)
            if isinstance(outcome, NotBegun):
                self._outbox.post(outcomes.released(token, self._options.worker, outcome.reason))
                return
            found = classify(token.contract, outcome, token.identity, own_try=token.own_try, gone=token.gone)
            if isinstance(found, Succeeded) and not found.no_op and token.contract.verify is not None:
                found = InDoubt(error_class="verifying", bytes_left=BytesLeft.YES, reference=found.reference)
            self._outbox.post(outcomes.event_of(token, self._options.worker, found, self._record(outcome, at_ms)))

        at_ms = self._clock.now_ms()
        operation = CurrentOperation(token, lease)
        return Call(function, arguments, check=check, operation=operation, lease=lease, late=late)

    def _interrupted(self, token: Execute, call: Call, error: BaseException, dispatched_at_ms: int) -> Steps:
        """The call was cut short by *error*, which goes on to the caller."""
        if call.left_running:
            return  # it goes on in its thread: its own end is the end of the attempt
        if isinstance(error, self._options.suspend_on):
            yield Post(event=outcomes.released(token, self._options.worker, "suspended"))
            return
        # Of what ends a process or a task only the class is kept: its other fields are no error codes.
        cut = Raised(error_class=raised(error).error_class)
        found = classify(token.contract, cut)
        yield Post(event=outcomes.event_of(token, self._options.worker, found, self._record(cut, dispatched_at_ms)))

    # ---- finish -------------------------------------------------------------------------------------------------------

    def start(self, token: Execute, arguments: Mapping[str, Any] | None) -> Refused | None:
        """Right before a call that the holder of *token* makes itself; see `Ledger.start`."""
        if token.claim_id not in self._granted:
            raise RequestError(Problem("token", "is good for one call of the process that asked, and was used"))
        self._granted.discard(token.claim_id)
        lease = self._leases.keep(token)
        reason = self._not_now(token, lease, arguments)
        if reason is None:
            self._held[token.claim_id] = (lease, self._clock.now_ms())
            return None
        self._leases.drop(lease)
        self._outbox.post(outcomes.released(token, self._options.worker, reason))
        return _not_begun(token, reason)

    def _not_now(self, token: Execute, lease: Lease, arguments: Mapping[str, Any] | None) -> str | None:
        """Why the call must not be made now. The lease comes last: nothing stands between it and the call."""
        if arguments is not None and not _same(token, arguments):
            return MUTATED
        return None if lease.remaining_s() > 0 else LEASE_OVER

    def finish(
        self, token: Execute, outcome: CallOutcome, verify: ProbeFunction | None = None
    ) -> Generator[Request, Any, Result]:
        """Classifies *outcome* of the call that *token* allowed, records it, and says what holds."""
        self._granted.discard(token.claim_id)
        held = self._held.pop(token.claim_id, None)
        lease, dispatched_at_ms = held or (Lease(token, self._clock), token.granted_at_ms)
        self._leases.drop(lease)
        return (yield from self._finished(token, lease, outcome, verify, dispatched_at_ms))

    def suspend(self, token: Execute, why: str) -> Steps:
        """Gives *token* back: the call was not made, and nothing was sent."""
        self._granted.discard(token.claim_id)
        held = self._held.pop(token.claim_id, None)
        if held is not None:
            self._leases.drop(held[0])
        yield Post(event=outcomes.released(token, self._options.worker, why))

    def _finished(
        self, token: Execute, lease: Lease, outcome: CallOutcome, verify: ProbeFunction | None, dispatched_at_ms: int
    ) -> Generator[Request, Any, Result]:
        over = lease.remaining_s() <= 0
        found = classify(token.contract, outcome, token.identity, own_try=token.own_try, gone=token.gone)
        record = self._record(outcome, dispatched_at_ms)
        if isinstance(found, Succeeded) and not found.no_op and token.contract.verify is not None:
            found = yield from self._verified(token, found, record, verify)
        event = outcomes.event_of(token, self._options.worker, found, record)
        reach("sdk.before_outcome")
        appended: Appended | None = yield Record(event=event, wait_s=self._options.record_wait_s)
        reach("sdk.outcome_acknowledged")
        reference = None if not isinstance(found, Succeeded | InDoubt) else found.reference
        if isinstance(found, InDoubt):
            return self._unknown(token, found.error_class, reference, found.settles_after_ms)
        if appended is None:
            return self._unknown(token, "not_recorded", reference)
        if over or appended.at_ms >= lease.log_end_ms:
            # The evidence is on the log; what it amounts to beside whatever happened since the lease ended, the fold says.
            return self._unknown(token, LEASE_OVER, reference)
        return outcomes.result_of_call(token, found, outcome, appended.at_ms)

    def _verified(
        self, token: Execute, found: Succeeded, record: ev.CallRecord, verify: ProbeFunction | None
    ) -> Generator[Request, Any, Succeeded | InDoubt]:
        """Puts the reference on the log, then reads the effect. A read that does not find it proves nothing."""
        doubt = InDoubt(error_class="verifying", bytes_left=BytesLeft.YES, reference=found.reference)
        yield Post(event=outcomes.event_of(token, self._options.worker, doubt, record))
        reach("sdk.reference_sent")
        seen: object = None
        if verify is not None:
            request = ProbeRequest(
                tenant_id=token.tenant_id,
                operation_id=token.operation_id,
                group_id=token.group_id,
                tool=token.contract.tool,
                attempt=token.attempt,
                request_hash=token.request_hash,
                references=() if found.reference is None else (found.reference,),
                dispatched_at_ms=token.granted_at_ms,
                timeout_s=token.contract.lease,
            )
            seen = yield Look(function=verify, request=request, wait_s=token.contract.lease)
        same = isinstance(seen, Found) and seen.reference in (None, found.reference)
        if same and isinstance(seen, Found) and seen.status is EffectStatus.SETTLED:
            return found
        return InDoubt(error_class="not_verified", bytes_left=BytesLeft.YES, reference=found.reference)

    def _record(self, outcome: CallOutcome, dispatched_at_ms: int) -> ev.CallRecord:
        return outcomes.call_record(outcome, dispatched_at_ms=dispatched_at_ms, ended_at_ms=self._clock.now_ms())

    def _unknown(self, token: Execute, reason: str, reference: str | None = None, settles_after_ms: int | None = None) -> Unknown:
        first_ms = round(token.contract.first_check_after * 1000) if settles_after_ms is None else settles_after_ms
        next_ms = self._clock.now_ms() + first_ms
        return Unknown(operation_id=token.operation_id, reason=reason, next_check_at_ms=next_ms, reference=reference)


def _same(token: Execute, arguments: Mapping[str, Any]) -> bool:
    try:
        return request_hash(token.contract, arguments) == token.request_hash
    except RequestError:
        return False


def _approval_wait_s(begun: Execute | Result) -> float:
    """Seconds that the policy lets this caller wait for a person; 0: it does not wait."""
    if not isinstance(begun, Refused) or begun.reason is not Refusal.APPROVAL_REQUIRED:
        return 0.0
    text = begun.detail.get("approval_wait_ms", "")
    return int(text) / 1000 if text.isdigit() else 0.0


def _not_begun(token: Execute, why: str) -> Refused:
    reason = Refusal.REQUEST_MISMATCH if why == MUTATED else Refusal.LEDGER_UNAVAILABLE
    return Refused(operation_id=token.operation_id, reason=reason, detail={"released": why})
