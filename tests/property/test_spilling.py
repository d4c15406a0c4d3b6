"""A file of values by key is a dictionary in the order of its keys."""

from hypothesis import given
from hypothesis import strategies as st

from landed_services.spilling import Spill

PAIRS = st.lists(st.tuples(st.binary(max_size=6), st.text(max_size=6)), max_size=8)


@given(st.lists(PAIRS, max_size=4), st.lists(st.binary(max_size=6), max_size=4))
def test_what_is_put_last_is_there_and_in_order(puts: list[list[tuple[bytes, str]]], others: list[bytes]) -> None:
    spill, same = Spill[str](str), dict[bytes, str]()
    try:
        for pairs in puts:
            spill.put(pairs)
            same.update(pairs)
        assert list(spill.items()) == sorted(same.items())
        asked = [*same, *others]
        assert spill.get(asked) == {key: same[key] for key in asked if key in same}
    finally:
        spill.close()


def test_more_keys_are_looked_up_than_one_statement_takes() -> None:
    spill, same = Spill[int](int), {number.to_bytes(4, "big"): number for number in range(2_000)}
    try:
        spill.put(same.items())
        assert spill.get(same) == same
    finally:
        spill.close()
