"""Breakers as people see them (docs/semantics.md §9) are those that the refused callers were shown."""

import msgspec
import pytest

from landed.core.policy import Ceiling
from landed.core.surge import Breaker, Used, room
from landed_services.queries.ceilings import _shown


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_a_breaker_that_is_open_is_shown_as_its_refusal_said_it_also_where_the_ceiling_was_lowered(limit: int) -> None:
    """Two grants of the time before stand in the window; a ceiling of nothing never resets."""
    ceiling, used = Ceiling(limit=limit, per_s=60), Used(count=2, frees_ms=1_000)
    refused = room({"ceiling:a": (ceiling,)}, lambda key, one: used, effect_type="a")
    told = msgspec.json.decode(refused.breaker or "", type=Breaker)

    shown = _shown("ceiling:a", ceiling, used, ("", told, 5_000), None)

    assert (shown.state, shown.resets_at) == ("open", None if limit == 0 else 61_000)
    assert {name: getattr(shown, name) for name in Breaker.__struct_fields__} == msgspec.structs.asdict(told)
