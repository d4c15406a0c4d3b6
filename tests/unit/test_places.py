"""Calls of the team's own code that hang: given up in their time, never more than stated (landed_services.work.places)."""

import threading
import time
from collections.abc import Callable

from landed_services.work.places import LEFT_BEHIND_FACTOR, Places

AT_ONCE = 2


def hang(places: Places[str, str], key: str, back: threading.Event) -> bool:
    """One call of *key* that hangs until *back*, and is given up at once."""

    def work() -> str:
        back.wait(60)
        return key

    started = places.start(key, key, work, limit_s=0.0, when_done=lambda: None)
    if started:
        (given_up,) = places.take()
        assert (given_up.about, given_up.result) == (key, None)
    return started


def test_a_key_whose_calls_hang_starts_no_more_of_them_and_stops_no_other_until_one_comes_back() -> None:
    places: Places[str, str] = Places(AT_ONCE, name="test-place")
    back = threading.Event()
    assert [hang(places, "a", back) for _ in range(AT_ONCE)] == [True] * AT_ONCE
    assert places.is_stuck("a")
    assert not hang(places, "a", back)
    assert not places.is_stuck("b")
    assert hang(places, "b", back)
    back.set()
    until(lambda: places.left_behind() == 0)
    assert not places.is_stuck("a")
    places.close()


def test_threads_left_behind_by_many_keys_are_bounded_together() -> None:
    places: Places[str, str] = Places(AT_ONCE, name="test-place")
    back = threading.Event()
    most = AT_ONCE * LEFT_BEHIND_FACTOR
    assert [hang(places, f"key-{number}", back) for number in range(most + 1)] == [True] * most + [False]
    assert places.left_behind() == most
    assert places.is_stuck("another"), "nothing is started any more"
    back.set()
    until(lambda: not places.is_stuck("another"))
    places.close()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)
