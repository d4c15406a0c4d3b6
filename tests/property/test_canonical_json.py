"""The short way to canonical JSON gives the bytes that the reference gives."""

from typing import Any

import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from landed.core.identity import _as_doubles, canonical_json, normalized

TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.text(st.characters(max_codepoint=0x80), max_size=8)
)
SCALARS = st.one_of(
    st.none(), st.booleans(), TEXT, st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)))
PLAIN = st.text(st.characters(min_codepoint=0x1F, max_codepoint=0x7F), max_size=8)
PLAIN_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), PLAIN, st.integers(-(2**53), 2**53)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(PLAIN, inner, max_size=4)),
)


@given(st.one_of(st.dictionaries(TEXT, VALUES, max_size=5), st.dictionaries(PLAIN, PLAIN_VALUES, max_size=5)))
def test_it_is_that_of_the_reference_for_whatever_arguments_are_taken(arguments: dict[str, Any]) -> None:
    try:
        taken = normalized(arguments)
    except ValueError:
        return  # two keys that are one in NFC
    assert canonical_json(taken) == rfc8785.dumps(_as_doubles(taken))
