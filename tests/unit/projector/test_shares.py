"""Who is to own which partition: everybody, from the same rows, says the same."""

from hypothesis import given
from hypothesis import strategies as st

from landed_services.projector.membership import Place, shares

NAMES = ["a", "b", "c", "d", "e"]


def places(owners: dict[int, str]) -> dict[int, Place]:
    return {partition: Place(owner=owner, owner_epoch=1, caught_up=True) for partition, owner in owners.items()}


@given(
    owners=st.dictionaries(st.integers(0, 15), st.sampled_from(["", *NAMES])),
    live=st.sets(st.sampled_from(NAMES), min_size=1),
    partitions=st.integers(1, 16),
)
def test_every_partition_has_one_owner_that_is_there_and_nobody_has_two_more_than_another(
    owners: dict[int, str], live: set[str], partitions: int
) -> None:
    found = shares(places(owners), sorted(live), partitions)
    assert sorted(one for mine in found.values() for one in mine) == list(range(partitions))
    sizes = [len(mine) for mine in found.values()]
    assert max(sizes) - min(sizes) <= 1
    assert found == shares(places(owners), sorted(live, reverse=True), partitions)
    for name, mine in found.items():
        held = {one for one, owner in owners.items() if owner == name and one < partitions}
        # Nobody gives a partition up and gets another one for it.
        assert mine <= held or held <= mine


def test_one_that_joins_gets_half_and_one_that_leaves_hands_all_over() -> None:
    alone = places(dict.fromkeys(range(12), "a"))
    assert shares(alone, ["a"], 12) == {"a": set(range(12))}
    assert shares(alone, ["a", "b"], 12) == {"a": set(range(6)), "b": set(range(6, 12))}
    assert shares(alone, ["b"], 12) == {"b": set(range(12))}
    assert shares({}, ["b", "a"], 3) == {"a": {0, 1}, "b": {2}}
