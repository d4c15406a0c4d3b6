"""Facts and must_nots in the words of people: what has a countable meaning is checked by machine, the rest is printed.

A sentence is recognized by the words of its form alone, never by a name; operations in it are found by the case's own names.
A fact that a check does not confirm is printed for people: whether it holds may hang on words that no machine reads. A must_not
fails the case only where a check is certain that it is violated.
"""

import re
from typing import Final

import msgspec

from landed.testing.cases import sentences as s
from landed.testing.cases.guarantees import broken_guarantees
from landed.testing.cases.loading import Case
from landed.testing.cases.sentences import NUMBERS, Check, Sentence
from landed.testing.cases.world import World


class Checks(msgspec.Struct, frozen=True, kw_only=True):
    """What machines made of the sentences of one case."""

    broken: tuple[str, ...] = ()
    facts_checked: int = 0
    facts_printed: tuple[str, ...] = ()
    must_not_checked: int = 0
    must_not_printed: tuple[str, ...] = ()


def checks_of(case: Case, world: World) -> Checks:
    """Checks every sentence of *case*, and the guarantees that hold in all."""
    confirmed = [text for text in case.facts if _holds(FACTS, text, world)]
    verdicts = {text: _holds(MUST_NOTS, text, world) for text in case.must_not}
    violated = [text for text, holds in verdicts.items() if holds is False]
    kept = [text for text, holds in verdicts.items() if holds]
    return Checks(
        broken=(*(f"must not: {text}" for text in violated), *broken_guarantees(world)),
        facts_checked=len(confirmed),
        facts_printed=tuple(text for text in case.facts if text not in confirmed),
        must_not_checked=len(kept),
        must_not_printed=tuple(text for text, holds in verdicts.items() if holds is None),
    )


def _holds(table: dict[str, Check], text: str, world: World) -> bool | None:
    """The first check that recognizes *text*; True and False only where all that recognize it agree."""
    found: list[bool | None] = []
    named = tuple(known for op, known in world.known.items() if re.search(rf"(?<![\w.]){re.escape(op)}(?![\w.])", text))
    for form, check in table.items():
        match = re.search(form, text)
        if match is not None:
            found.append(check(Sentence(match=match, ops=named or tuple(world.known.values()), named=bool(named), world=world)))
    told = [one for one in found if one is not None]
    return all(told) if told else None


_N: Final = r"(\d+|" + "|".join(NUMBERS) + ")"

FACTS: Final[dict[str, Check]] = {
    rf"\b{_N} dispatch(?:es)?\b(?! each)": s.dispatches,
    r"\bdispatched once each": s.one_attempt_each,
    r"\breceipt (\S+)$|\bgot (\S+) from the ledger": lambda said: s.receipt(said) if said.match[1] else None,
    rf"\b{_N} presentations\b": s.presentations,
    r"answered with '(?:outcome )?unknown|was told '(?:unknown|unresolved)'|saw the claim": s.told_unknown,
    r"answered 'waiting for a person'": s.told_by_a_person,
    r"refused: same operation, changed arguments": s.told_mismatch,
    r"refused because the group is unwinding": s.told_unwinding,
    r"answered (?:with the stored result|from the ledger)|marked as a replay": s.told_again,
    r"\bat ([\d.]+) s: refused\b.*\bnothing sent": s.told_at,
    r"no provider call was made at ([\d.]+) s": s.nothing_sent_at,
    r"\bone (?:provider )?key\b": s.one_key,
    r"linked to .* replacement .* own key": s.replaces,
    r"in the review queue": s.in_review,
    r"'contradicted' flag": s.contradicted,
    r"undo was in the log before the forward call": s.undo_registered_before,
}

MUST_NOTS: Final[dict[str, Check]] = {
    r"^(?:a|an) (?:automatic )?(?:resend|replay of \w+)$": s.not_sent_again,
    r"^a second dispatch\b": s.not_sent_early,
    r"any automatic transport retry of a write": s.requests_are_dispatches,
    r"^state failed\b|^failed because of": s.no_failed_state,
    r"^(?:a dispatch|a resend) at ([\d.]+) s$": s.nothing_sent_at,
    r"^any provider request after ([\d.]+) s$": s.nothing_sent_after,
    r"^(?:a new key|two different provider keys for \w+|\w+ or \w+ sent as the provider key)$": s.one_key,
    r"^\w+'s key sent with \w+'s arguments$": s.own_keys,
    r"\bleft in (\w+)$": s.not_left,
    r"^(\w+) (?:unwound$|in (?:a|any) final state(?: before|$))": lambda said: (
        s.never_unwound(said) if "before" not in said.match[0] else s.unwound_only_when_settled(said)
    ),
    r"\bunwound (?:while|before)\b": s.unwound_only_when_settled,
    r"^an undo sent while \w+ is unknown$": s.no_undo_in_doubt,
    rf"^more than {_N} probes for one item$": s.probes_at_most,
    r"^(?:any dispatch without a written claim|a dispatch before its claim is acknowledged)$": s.claimed_before_sent,
    r"^(?:two|a second|three or four|four or more|nine|more than \d+) \w+(?: from \w+)?$": s.no_other_effects,
    r"^a recipient with two \w+$": s.no_other_effects,
    r"^\w+ admitted$": s.not_admitted,
    r"^\w+ compensated$": s.not_compensated,
}

__all__ = ["FACTS", "MUST_NOTS", "Checks", "checks_of"]
