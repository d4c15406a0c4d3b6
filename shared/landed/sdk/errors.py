"""Errors of the SDK: one tree, whose branches say what the caller can do.

    LandedError
    ├── ContractError        fix the contract of the tool; lists every field and rule
    ├── RequestError         fix the call: an id, an argument or an option breaks the rule that it names
    ├── SettingsError        fix the settings; lists every field and rule
    ├── LedgerUnavailable    try again: the ledger did not acknowledge in time
    ├── LedgerGone           connect again: this ledger was closed, or belongs to the process that this one was forked from
    ├── UnrecordedCall       perform the tool through a ledger; its bare function is `tool.function`
    ├── NoOperation          ask for the operation inside a tool that a ledger calls
    └── ToolError            raised *by tools*: the provider answered with an error; `no_effect_errors` may name its code
        └── NotSent          raised *by tools*: no byte of the request left this process

`perform` answers with a value (`results.py`) whatever happens to the call or to the ledger; it raises only the errors above that
ask for a change of the program, and before anything is sent. `LedgerUnavailable` comes from `Group.close` and `Group.unwind`.

Below the same root stand the errors of the parts that services and operators meet; the SDK turns them into those above:

    LandedError
    ├── AppendFailed         ports: unknown whether the event is on the log (`NothingAppended`: certainly not)
    ├── CannotReplay         sdk: this process cannot send a request again; one word says why
    ├── WireError            wire: an event, a record or a key ring that breaks a rule
    ├── LogError             adapters.kafka: broker out of reach, topic unfit, log that does not continue
    ├── DatabaseError        adapters.postgres: database out of reach, tables of another release
    ├── PolicyError          core: a policy whose key or value breaks a rule
    ├── PeopleError          services: what a person asked for cannot be done; says why and what is so
    ├── EmbeddedError        adapters.embedded: servers on this machine
    ├── CasesError           testing.cases: a file of cases, or an option of their runner, that breaks a rule
    ├── ReplayError          services: a bundle that cannot be read, or was changed since it was exported
    ├── ShareFailed          services: a process that did a share of a long work ended by itself
    ├── DrillStopped         services: a drill whose tool does not go where it was led
    └── ProjectorError       services: a log that was replaced, a projector that was taken over
"""

from collections.abc import Iterable

from landed.core.contract import Problem
from landed.core.errors import LandedError
from landed.core.identity import RequestError

__all__ = [
    "ContractError",
    "LandedError",
    "LedgerGone",
    "LedgerUnavailable",
    "NoOperation",
    "NotSent",
    "RequestError",
    "SettingsError",
    "ToolError",
    "UnrecordedCall",
]


class _Problems(LandedError, ValueError):
    def __init__(self, subject: str, problems: Iterable[Problem]) -> None:
        self.subject = subject
        """Whose they are: a file, or `contract of 'tool'`."""
        self.problems = tuple(problems)
        """Everything that is wrong, each with its field and its rule."""
        super().__init__(f"{subject}: " + "; ".join(map(str, self.problems)))


class ContractError(_Problems):
    """A contract that cannot be taken, or a tool that does not keep to its own."""


class SettingsError(_Problems):
    """Settings that cannot be taken. Shows no value of a secret."""


class LedgerUnavailable(LandedError):
    """The ledger did not acknowledge in time: it is unknown whether the event is on the log; appending it again is safe."""


class LedgerGone(LandedError, RuntimeError):
    """This ledger was closed, or was connected by another process."""


class UnrecordedCall(LandedError, TypeError):
    """A tool with effects was called past the ledger."""


class NoOperation(LandedError, LookupError):
    """No tool is being called by a ledger in this context."""


class ToolError(LandedError):
    """Raised by a tool: the provider answered with an error.

    Args:
        code: the provider's error code, as `no_effect_errors` and `already_exists_errors` name it.
        status: status of the answer, such as an HTTP status.
        request_id: the provider's id of the request.
    """

    def __init__(self, code: str, *, status: int | str | None = None, request_id: str | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.status = status
        self.request_id = request_id


class NotSent(ToolError):
    """Raised by a tool that knows that **no byte of any request of this call left** the process, so that nothing happened.

    A library that tried more than once knows that only if none of its tries sent anything.
    """

    def __init__(self, code: str = "not_sent") -> None:
        super().__init__(code)
