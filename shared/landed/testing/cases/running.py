"""One case from its words to its result."""

import logging
from typing import Final, Literal

import msgspec

from landed.testing.cases.comparing import compared
from landed.testing.cases.facts import Checks, checks_of
from landed.testing.cases.loading import Case
from landed.testing.cases.verbs import play
from landed.testing.cases.world import NotSupported

_QUIET: Final = ("landed.sdk", "landed.reconciler")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one case."""

    case: Case
    result: Literal["pass", "fail", "not supported"]
    because: tuple[str, ...] = ()
    """Differences, or why it is not supported."""
    checked: int = 0
    checks: Checks = Checks()
    for_people: tuple[str, ...] = ()


def run(case: Case) -> Outcome:
    """Plays *case* in simulated time and compares. The same case gives the same outcome, always."""
    loggers = [logging.getLogger(name) for name in _QUIET]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        world = play(case)
    except NotSupported as error:
        return Outcome(case=case, result="not supported", because=(str(error),))
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        return Outcome(case=case, result="fail", because=(f"raised {type(error).__name__}: {text}",))
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
    found = compared(case, world)
    checks = checks_of(case, world)
    because = (*found.differences, *checks.broken)
    return Outcome(
        case=case,
        result="fail" if because else "pass",
        because=because,
        checked=found.checked,
        checks=checks,
        for_people=found.for_people,
    )
