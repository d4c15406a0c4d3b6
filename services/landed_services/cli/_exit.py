"""How a command ends: the exit codes, and which failure is which."""

from __future__ import annotations

import enum
import sys


class Exit(enum.IntEnum):
    """Exit codes; scripts may rely on them."""

    DONE = 0
    FOUND = 1
    USAGE = 2
    SETUP = 3
    FAILED = 4
    INTERNAL = 70
    INTERRUPTED = 130


EXIT_CODES = {
    Exit.DONE: "done",
    Exit.FOUND: "it ran and found something that is not as it should be",
    Exit.USAGE: "the command line is wrong",
    Exit.SETUP: "something on this machine or in the settings must change first",
    Exit.FAILED: "a server failed or could not be reached; trying again may help",
    Exit.INTERNAL: "a defect of landed",
    Exit.INTERRUPTED: "interrupted",
}

# Errors that are answers, not defects: class -> exit code; of several that fit, the first line counts. Named by text,
# so that a command loads only what it needs: an error can only come from a module that is loaded.
FAILURES: dict[str, Exit] = {
    "landed.adapters.embedded:SetupError": Exit.SETUP,
    "landed.adapters.embedded:EmbeddedError": Exit.FAILED,
    "landed.sdk.errors:SettingsError": Exit.SETUP,
    "landed.sdk.errors:ContractError": Exit.SETUP,
    "landed.sdk.errors:LedgerUnavailable": Exit.FAILED,
    "landed.adapters.kafka.errors:TopicUnfit": Exit.SETUP,
    "landed.adapters.kafka.registry:RegistryUnfit": Exit.SETUP,
    "landed.adapters.kafka.errors:LogError": Exit.FAILED,
    "landed.adapters.postgres.errors:SchemaOutdated": Exit.SETUP,
    "landed.adapters.postgres.errors:DatabaseSettingError": Exit.SETUP,
    "landed.adapters.postgres.errors:DatabaseError": Exit.FAILED,
    "landed.core.identity:RequestError": Exit.USAGE,
    "landed.core.policy:PolicyError": Exit.USAGE,
    "landed.ports.log:AppendFailed": Exit.FAILED,
    "landed_services.fanning:ShareFailed": Exit.FAILED,
    "landed_services.people.errors:NotSeenYet": Exit.FAILED,
    "landed_services.people.errors:PeopleError": Exit.FOUND,
    "landed_services.projector.errors:LogReplaced": Exit.SETUP,
    "landed_services.projector.errors:NotFolded": Exit.SETUP,
    "landed_services.projector.errors:ProjectorError": Exit.FAILED,
    "landed_services.replay.errors:NoBundle": Exit.USAGE,
    "landed_services.replay.errors:SeveralFit": Exit.USAGE,
    "landed_services.replay.errors:BundleRefused": Exit.FOUND,
    "landed_services.trust.results:DrillStopped": Exit.SETUP,
}


class CommandFailed(Exception):
    """A command's own way to end with a message and an exit code."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


def require(option: str, holds: bool, rule: str) -> None:
    """End the command where *option* breaks *rule*."""
    if not holds:
        raise CommandFailed(f"{option}: {rule}", Exit.USAGE)


def exit_code(error: Exception) -> Exit | None:
    """The exit code for an error that is an answer; None for a defect."""
    if isinstance(error, CommandFailed):
        return error.code
    for path, code in FAILURES.items():
        module_name, _, class_name = path.partition(":")
        module = sys.modules.get(module_name)
        if module is not None and isinstance(error, getattr(module, class_name)):
            return code
    return None
