"""Facts and must_nots in the words of people: those with a countable meaning are checked, the others are printed.

Beside them stand the rules that hold in every case, whatever its words: they are the guarantees of the product.
"""

import msgspec

from landed.testing.cases.loading import Case
from landed.testing.cases.world import World


class Checks(msgspec.Struct, frozen=True, kw_only=True):
    broken: tuple[str, ...] = ()
    facts_checked: int = 0
    facts_printed: tuple[str, ...] = ()
    must_not_checked: int = 0
    must_not_printed: tuple[str, ...] = ()


def checks_of(case: Case, world: World) -> Checks:
    return Checks(facts_printed=case.facts, must_not_printed=case.must_not)
