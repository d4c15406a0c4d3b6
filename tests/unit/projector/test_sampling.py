"""Samples: drawn by the group, the same by the same seed, about as many as were asked for."""

import pytest

from landed_services.projector.sampling import asked, sample

GROUPS = [("acme", f"op-{number}") for number in range(4_000)]


def test_the_same_seed_draws_the_same_groups_and_another_one_others() -> None:
    drawn = {seed: {one for one in GROUPS if sample(0.1, seed).takes(*one)} for seed in ("a", "b")}
    assert drawn["a"] == {one for one in GROUPS if sample(0.1, "a").takes(*one)}
    assert drawn["a"] != drawn["b"]
    assert all(300 < len(groups) < 500 for groups in drawn.values())


def test_a_larger_share_takes_what_the_smaller_one_took() -> None:
    assert {one for one in GROUPS if sample(0.05, "a").takes(*one)} < {one for one in GROUPS if sample(0.2, "a").takes(*one)}
    assert all(sample(1.0, "a").takes(*one) for one in GROUPS)
    assert not any(sample(0.0, "a").takes(*one) for one in GROUPS)


def test_a_number_of_operations_is_a_share_of_those_there_are() -> None:
    assert asked("5%").of(7) == 0.05
    assert asked("1000").of(20_000) == 0.05
    assert asked("1000").of(10) == 1.0
    assert asked("1000").of(0) == 1.0


@pytest.mark.parametrize("text", ["", "0%", "101%", "-3", "0", "5 %%", "many", "1e3"])
def test_what_is_neither_a_share_nor_a_number_is_refused_with_the_rule(text: str) -> None:
    with pytest.raises(ValueError, match="must be a share such as 5%"):
        asked(text)
