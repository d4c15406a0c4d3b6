"""The ledger as threads use it; `async_ledger.py` is its twin for asyncio.

with Ledger.connect("memory://", tenant="acme") as ledger:
    result = ledger.group("trip-7", workflow_type="trip").perform(book_hotel, step="hotel", city="Oslo")
"""

from collections.abc import Generator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from landed.core import events as ev
from landed.ports import Clock, EventLog, Ids, VerdictInbox
from landed.sdk.classify import CallOutcome
from landed.sdk.drivers import SyncDriver
from landed.sdk.errors import LedgerUnavailable
from landed.sdk.intent import Intent, intent_for
from landed.sdk.parts import Parts, checked_group, connected, inputs_json, performed, recorded, refuse_async, statement_of
from landed.sdk.requests import Request
from landed.sdk.results import Refused, Result
from landed.sdk.settings import Settings, settings_for, settings_from
from landed.sdk.token import Execute
from landed.sdk.tools import ProbeFunction, Tool

if TYPE_CHECKING:
    from landed.adapters.memory import MemoryLedger

T = TypeVar("T")


class Ledger:
    """Performs operations once. Safe to share between threads; not across a fork (`LedgerGone`).

    Made by `connect`; the constructor takes log and inbox themselves, for adapters and tests.

    Args:
        suspend_on: exceptions by which a framework interrupts a tool **before its effect**: the grant is given back and the
            exception goes on. Any other exception of a tool becomes a value.
        clock, ids, threaded: for tests with a clock that is driven by hand.
    """

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
        self.parts = Parts(settings, log, inbox, suspend_on=suspend_on, clock=clock, ids=ids, threaded=threaded)
        self._driver = SyncDriver(self.parts.doors)

    @classmethod
    def connect(
        cls,
        url: str | Settings | None = None,
        *,
        tenant: str | None = None,
        worker: str | None = None,
        wait: float | None = None,
        suspend_on: tuple[type[BaseException], ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """A ledger at *url* (see `settings.py`); without one, where the environment says.

        Raises:
            SettingsError: lists every field and rule.
            LedgerUnavailable: no broker answers.
        """
        settings = settings_for(url, tenant=tenant, worker=worker, wait=wait, environment=environment)
        log, inbox = connected(settings)
        return cls(settings, log, inbox, suspend_on=suspend_on)

    @classmethod
    def on(
        cls,
        memory: "MemoryLedger",
        *,
        tenant: str,
        worker: str | None = None,
        wait: float | None = None,
        suspend_on: tuple[type[BaseException], ...] = (),
    ) -> Self:
        """A ledger on *memory*, which several ledgers may share as several processes share one on Kafka."""
        settings = settings_from("memory://", environment={}, tenant=tenant, worker=worker, wait=wait)
        return cls(settings, memory, memory, suspend_on=suspend_on)

    def perform(
        self,
        tool: Tool[..., Any],
        /,
        *,
        operation_id: str | None = None,
        replaces: str | None = None,
        approval_id: str | None = None,
        retry: bool = False,
        wait: float | None = None,
        **arguments: Any,
    ) -> Result:
        """Performs *tool* once under its operation id, and gives what is known of it; a repeat calls nothing.

        Args:
            operation_id: names the effect; without it the contract's `business_key` does.
            replaces: operation that this one corrects.
            approval_id: approval that the policy asked for.
            retry: takes a retry that was offered after proven absence.
            wait: longest wait for the verdict, in seconds.
            arguments: of the tool; its operation key is filled in.

        Raises:
            RequestError, ContractError, LedgerGone: before anything is sent.
        """
        options = {"operation_id": operation_id, "replaces": replaces, "approval_id": approval_id}
        return self._perform(tool, intent_for(tool, arguments, retry=retry, wait_s=wait, **options))

    def group(
        self, group_id: str, *, workflow_type: str, parent_group: str | None = None, intent_ref: str | None = None
    ) -> "Group":
        """Opens the group, or goes on with it. Waits for nothing: a ledger out of reach shows at the first `perform`."""
        self.parts.check()
        checked_group(group_id, workflow_type, parent_group, intent_ref)
        opened = {"workflow_type": workflow_type, "parent_group": parent_group, "intent_ref": intent_ref}
        self.parts.outbox.post(self.parts.group_event(ev.GroupOpened, group_id, **opened))
        return Group(self, group_id)

    def record_statement(
        self, operation_id: str, claimed_state: str, message_digest: str, *, group_id: str | None = None
    ) -> None:
        """Records what an agent told its user about an operation: a disagreement with the ledger is counted and shown.

        Waits for nothing. The message itself stays with the caller; the same statement recorded twice counts once.

        Args:
            claimed_state: an outcome (`succeeded`, `failed`, …) or a state, as the message claims it.
            message_digest: SHA-256 of the message, 64 lower-case hexadecimal digits.
            group_id: group of the operation; None where it has none.

        Raises:
            RequestError: an argument breaks a rule.
        """
        self.parts.check()
        self.parts.outbox.post(statement_of(self.parts, operation_id, claimed_state, message_digest, group_id))

    # ---- the lower interface: what framework adapters and other doors are built on ------------------------------------

    def begin(self, intent: Intent) -> Execute | Result:
        """Claims *intent*, made by `intent_for` or `intent_of`.

        Returns:
            `Execute`: one call may be made, after `start`. Anything else is the result.
        """
        return self._run(self.parts.protocol.begin(intent))

    def start(self, token: Execute, arguments: Mapping[str, Any] | None = None) -> Refused | None:
        """Call it right before the call, with nothing in between; the lease is renewed from now until `finish` or `suspend`.

        Args:
            arguments: what is about to be sent; compared with what was claimed. Whoever hands none over vouches for it.

        Returns:
            None: call now. `Refused`: the lease is over or the arguments were changed; the grant is given back, do not call.

        Raises:
            RequestError: the token was used before; it is good for one call of the process that asked.
        """
        self.parts.check()
        return self.parts.protocol.start(token, arguments)

    def finish(self, token: Execute, outcome: CallOutcome, *, verify: ProbeFunction | None = None) -> Result:
        """Records what the call came to (`Returned` or `Raised`, see `raised`), and says what holds."""
        return self._run(self.parts.protocol.finish(token, outcome, verify))

    def suspend(self, token: Execute, *, why: str = "suspended") -> None:
        """Gives the grant back, for interrupts and deferrals. **Only where it is known that nothing was sent**; else `finish`."""
        self._run(self.parts.protocol.suspend(token, why))

    # -------------------------------------------------------------------------------------------------------------------

    def close(self, timeout: float = 5.0) -> None:
        """Waits for what is still to be acknowledged, at most *timeout* seconds, and ends the background thread."""
        self.parts.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _perform(self, tool: Tool[..., Any], intent: Intent) -> Result:
        refuse_async(tool)
        return self._run(performed(self.parts, tool, intent))

    def _run(self, steps: Generator[Request, Any, T]) -> T:
        self.parts.check()
        return self._driver.run(steps)

    def _record(self, event: ev.Event) -> None:
        if self._run(recorded(event, self.parts.settings.record_wait)) is None:
            raise LedgerUnavailable(f"not acknowledged within {self.parts.settings.record_wait:g} s; it is tried on")


class Group:
    """A unit of work: its operations are ordered on the log, and can be unwound together."""

    def __init__(self, ledger: Ledger, group_id: str) -> None:
        self._ledger = ledger
        self.group_id = group_id

    def perform(
        self,
        tool: Tool[..., Any],
        /,
        *,
        step: str | None = None,
        operation_id: str | None = None,
        depends_on: Sequence[str] | None = None,
        uses: Sequence[str] | None = None,
        replaces: str | None = None,
        approval_id: str | None = None,
        retry: bool = False,
        wait: float | None = None,
        **arguments: Any,
    ) -> Result:
        """As `Ledger.perform`, within the group.

        Args:
            step: names the operation within the group, where neither *operation_id* nor a `business_key` does.
            depends_on: operation ids of the group; None: every step confirmed before; empty: of none.
            uses: operation ids of the group whose output this step is made of: it depends on them too.
        """
        named = {"depends_on": depends_on, "uses": uses}
        options = {"operation_id": operation_id, "replaces": replaces, "approval_id": approval_id, "step": step}
        intent = intent_for(tool, arguments, group_id=self.group_id, retry=retry, wait_s=wait, **named, **options)
        return self._ledger._perform(tool, intent)

    def record_statement(self, operation_id: str, claimed_state: str, message_digest: str) -> None:
        """As `Ledger.record_statement`, about an operation of the group."""
        self._ledger.record_statement(operation_id, claimed_state, message_digest, group_id=self.group_id)

    def close(self) -> None:
        """No more steps; what was prepared before may still run.

        Raises:
            LedgerUnavailable: not acknowledged in time.
        """
        parts = self._ledger.parts
        self._ledger._record(parts.group_event(ev.GroupClosed, self.group_id, by=parts.settings.worker))

    def unwind(self, reason: str, *, inputs: Mapping[str, Any] | None = None) -> None:
        """Asks for the group to be undone: no forward step starts any more, and a plan results. Repeating it changes nothing.

        Args:
            inputs: inputs for an inverse, by operation id.

        Raises:
            LedgerUnavailable: not acknowledged in time.
        """
        parts = self._ledger.parts
        asked = {"reason": reason, "by": parts.settings.worker, "inputs": inputs_json(inputs)}
        self._ledger._record(parts.group_event(ev.UnwindRequested, self.group_id, **asked))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Leaves the group open: whether it is closed or undone is said, never guessed from how a block ended."""
