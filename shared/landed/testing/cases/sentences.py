"""What sentences ask: each check answers for one form of words, by what stands on the log and what reached the provider."""

import re
from collections.abc import Callable
from typing import Final

import msgspec

from landed.core import events as ev
from landed.core.state import COMPENSATE, Operation
from landed.core.vocabulary import GroupState, Refusal, State
from landed.sdk.results import Confirmed, Escalated, Refused, Rejected, Unknown
from landed.testing.cases.comparing import shown_state
from landed.testing.cases.guarantees import broken_guarantees
from landed.testing.cases.history import group_states_of, moments, states_of
from landed.testing.cases.loading import expanded
from landed.testing.cases.world import Known, World

_WORDS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
NUMBERS: Final = {word: number for number, word in enumerate(_WORDS)}


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of a case, with what it speaks of."""

    match: re.Match[str]
    ops: tuple[Known, ...]
    """Operations that it names; all of the case where it names none."""
    named: bool
    """Whether it names any."""
    world: World


Check = Callable[[Sentence], bool | None]
"""Whether the sentence holds; None where that cannot be told."""


# ---- what sentences ask --------------------------------------------------------------------------------------------------


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else NUMBERS.get(text)


def _operations(said: Sentence) -> list[Operation]:
    return [said.world.operation(known) for known in said.ops]


def _requests_since(said: Sentence, since_s: float, until_s: float = float("inf")) -> int:
    subjects = {(known.tenant_id, known.operation_id) for known in said.ops}
    return sum(since_s <= at_s <= until_s and request.subject in subjects for at_s, request in said.world.provider.log)


def dispatches(said: Sentence) -> bool | None:
    number = _number(said.match[1])
    return None if number is None else sum(op.attempts_counted for op in _operations(said)) == number


def one_attempt_each(said: Sentence) -> bool | None:
    return all(op.attempts_counted <= 1 for op in _operations(said))


def not_sent_again(said: Sentence) -> bool | None:
    """Certain where an operation is named, or there is only one; else another one may be repeatable."""
    if one_attempt_each(said):
        return True
    return False if said.named or len(said.ops) == 1 else None


def not_sent_early(said: Sentence) -> bool | None:
    return True if one_attempt_each(said) else None


def receipt(said: Sentence) -> bool | None:
    return any(ref.value == said.match[1] for op in _operations(said) for ref in op.references)


def presentations(said: Sentence) -> bool | None:
    names = {known.op for known in said.ops}
    return sum(told.op in names for told in said.world.told) == _number(said.match[1])


def told_unknown(said: Sentence) -> bool | None:
    names = {known.op for known in said.ops}
    return any(told.op in names and isinstance(told.result, Unknown) for told in said.world.told)


def told_by_a_person(said: Sentence) -> bool | None:
    return any(isinstance(told.result, Escalated) for told in said.world.told)


def told_mismatch(said: Sentence) -> bool | None:
    return any(_reason(told.result) is Refusal.REQUEST_MISMATCH for told in said.world.told)


def told_unwinding(said: Sentence) -> bool | None:
    names = {known.op for known in said.ops}
    return any(told.op in names and _reason(told.result) is Refusal.GROUP_UNWINDING for told in said.world.told)


def told_again(said: Sentence) -> bool | None:
    return any(isinstance(told.result, Confirmed | Rejected) and told.result.repeated for told in said.world.told)


def told_at(said: Sentence) -> bool | None:
    """At so many seconds a presentation was refused, and nothing was sent."""
    at_s = float(said.match[1])
    refused = any(told.asked_s == at_s and isinstance(told.result, Refused) for told in said.world.told)
    return refused and not _requests_since(said, at_s, at_s)


def _reason(result: object) -> Refusal | None:
    return result.reason if isinstance(result, Refused) else None


def one_key(said: Sentence) -> bool | None:
    return all(len(keys) <= 1 for keys in _keys(said).values())


def own_keys(said: Sentence) -> bool | None:
    keys = [key for several in _keys(said).values() for key in several]
    return len(keys) == len(set(keys))


def _keys(said: Sentence) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {known.op: set() for known in said.ops}
    for _, request in said.world.provider.log:
        if request.op in found and request.key is not None:
            found[request.op].add(request.key)
    return found


def in_review(said: Sentence) -> bool | None:
    return all(op.review is not None for op in _operations(said))


def contradicted(said: Sentence) -> bool | None:
    return all("contradiction" in op.marks for op in _operations(said))


def replaces(said: Sentence) -> bool | None:
    return any(op.replaces is not None for op in _operations(said)) and own_keys(said)


def undo_registered_before(said: Sentence) -> bool | None:
    return all(op.compensation for op in _operations(said))


def nothing_sent_at(said: Sentence) -> bool | None:
    at_s = float(said.match[1])
    return not _requests_since(said, at_s, at_s)


def nothing_sent_after(said: Sentence) -> bool | None:
    since_s = float(said.match[1])
    return all(at_s <= since_s for at_s, _ in said.world.provider.log)


def no_failed_state(said: Sentence) -> bool | None:
    """None of those that are not to end so was ever taken for failed."""
    failed = {name for names, state in said.world.case.states.items() if state == "failed" for name in expanded(names)}
    looked = [known for known in said.ops if known.op not in failed]
    return all(op.state is not State.REJECTED for known in looked for op in states_of(said.world, known))


def not_left(said: Sentence) -> bool | None:
    return None if not said.named else all(shown_state(said.world, known.op) != said.match[1] for known in said.ops)


def never_unwound(said: Sentence) -> bool | None:
    return GroupState.UNWOUND not in group_states_of(said.world, said.match[1])


def unwound_only_when_settled(said: Sentence) -> bool | None:
    """No group was unwound while an operation of it was in doubt."""
    for moment in moments(said.world):
        doubt = any(op.state in (State.DISPATCHED, State.UNKNOWN, State.RECONCILING) for op in moment.route.operations.values())
        if moment.route.group_state is GroupState.UNWOUND and doubt:
            return False
    return True


def no_undo_in_doubt(said: Sentence) -> bool | None:
    """No inverse was granted while its forward operation was in doubt."""
    before: dict[tuple[str, str], Operation] = {}
    for moment in moments(said.world):
        event = moment.entry.event
        if isinstance(event, ev.DispatchGranted) and (event.operation_id or "").startswith(COMPENSATE):
            forward = before.get((event.tenant_id, (event.operation_id or "").removeprefix(COMPENSATE)))
            if forward is not None and forward.state in (State.UNKNOWN, State.RECONCILING):
                return False
        before |= {(moment.route.tenant_id, name): op for name, op in moment.route.operations.items()}
    return True


def probes_at_most(said: Sentence) -> bool | None:
    number = _number(said.match[1])
    looks: dict[tuple[str, str | None], int] = {}
    for entry in said.world.ledger.entries():
        if isinstance(entry.event, ev.ProbeRecorded):
            key = (entry.event.tenant_id, entry.event.operation_id)
            looks[key] = looks.get(key, 0) + 1
    return None if number is None else max(looks.values(), default=0) <= number


def claimed_before_sent(said: Sentence) -> bool | None:
    """Every request follows a grant of its operation on the log; the guarantees check it for all."""
    return not broken_guarantees(said.world)


def requests_are_dispatches(said: Sentence) -> bool | None:
    counted = sum(op.attempts_counted for op in _operations(said))
    repeated = sum(said.world.repeated.values())
    return len(said.world.provider.log) <= counted + repeated


def no_other_effects(said: Sentence) -> bool | None:
    """Effects are as many as the case expects: more would be a duplicate, whatever they are called."""
    expected = {tool: count for tool, count in said.world.case.effects.items() if isinstance(count, int)}
    return all(said.world.provider.effects[tool] <= count for tool, count in expected.items()) if expected else None


def not_admitted(said: Sentence) -> bool | None:
    return None if not said.named else all(not op.attempts_counted for op in _operations(said))


def not_compensated(said: Sentence) -> bool | None:
    return None if not said.named else all(op.state is not State.COMPENSATED for op in _operations(said))
