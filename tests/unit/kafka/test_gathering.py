"""A record that finds nobody underway goes at once; while others are underway records wait and go together, in their order."""

from collections.abc import Callable

from landed.adapters.kafka.gathering import HELD_MAX_S, LINGER_MAX_S, Gathering


class World:
    """A gathering with a clock that is driven by hand, and what it handed over, by when."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.sent: list[int] = []
        self.gathering: Gathering[int] = Gathering(self.sent.append, lambda: self.now_s)

    def acknowledge(self, number: int) -> None:
        for _ in range(number):
            self.gathering.settled()
        self.gathering.release()

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.gathering.release()

    def until(self, condition: Callable[[], bool]) -> float:
        """Seconds that pass, in the steps that the gathering asks for, until *condition*."""
        began = self.now_s
        while not condition():
            assert self.now_s - began < 1, "nothing happens"
            self.wait(max(self.gathering.wait_s(0.1), 0.0001))
        return self.now_s - began


def test_a_single_caller_never_waits() -> None:
    world = World()
    for number in range(100):
        world.gathering.offer(number)
        assert world.sent == list(range(number + 1)), "sent before anything else happens"
        world.acknowledge(1)


def test_what_comes_while_others_are_underway_goes_together_and_in_order_when_they_are_acknowledged() -> None:
    world = World()
    for number in range(50):
        world.gathering.offer(number)
    assert world.sent == [0]
    world.acknowledge(1)
    assert world.sent == list(range(50))


def test_a_broker_that_does_not_answer_gets_what_is_held_all_the_same() -> None:
    world = World()
    for number in range(3):
        world.gathering.offer(number)
    assert world.until(lambda: world.sent == [0, 1, 2]) <= HELD_MAX_S + 0.001


def test_after_many_went_together_the_next_are_waited_for_but_never_longer_than_the_linger() -> None:
    world = World()
    for number in range(200):
        world.gathering.offer(number)
    world.acknowledge(1)
    world.acknowledge(199)
    world.gathering.offer(200)
    assert world.sent == list(range(200)), "as many may be on their way again"
    world.gathering.offer(201)
    assert world.until(lambda: len(world.sent) == 202) <= LINGER_MAX_S + 0.001
    assert world.sent == list(range(202))


def test_when_the_others_are_gone_who_is_left_waits_no_more() -> None:
    world = World()
    for number in range(200):
        world.gathering.offer(number)
    world.acknowledge(1)
    world.acknowledge(199)
    assert world.until(lambda: world.gathering.wait_s(0.1) == 0.1) < 0.1, "quiet for a moment"
    world.gathering.offer(200)
    assert world.sent[-1] == 200


def test_a_caller_that_is_alone_again_without_a_pause_waits_for_less_each_time() -> None:
    world = World()
    for number in range(64):
        world.gathering.offer(number)
    world.acknowledge(1)
    world.acknowledge(63)
    waits = []
    for number in range(64, 75):
        world.gathering.offer(number)
        sent = number + 1
        waits.append(world.until(lambda sent=sent: len(world.sent) == sent))  # type: ignore[misc]
        world.acknowledge(1)
    assert waits == sorted(waits, reverse=True)
    assert waits[-1] == 0


def test_two_callers_that_are_left_of_many_soon_wait_for_each_other_only() -> None:
    world = World()
    for number in range(64):
        world.gathering.offer(number)
    world.acknowledge(1)
    waits = []
    underway = 63
    for number in range(64, 75):
        world.gathering.offer(number)
        world.acknowledge(underway)
        sent = number + 1
        waits.append(world.until(lambda sent=sent: len(world.sent) == sent))  # type: ignore[misc]
        underway = 1  # the next comes before it is acknowledged
    assert waits == sorted(waits, reverse=True)
    assert waits[0] > 0
    assert waits[-1] == 0


def test_one_that_cannot_be_handed_over_leaves_the_others_as_they_are() -> None:
    sent: list[int] = []

    def refuse_odd(number: int) -> None:
        gathering.settled() if number % 2 else sent.append(number)

    gathering: Gathering[int] = Gathering(refuse_odd, lambda: 0.0)
    gathering.offer(1)
    gathering.offer(2)
    assert sent == [2], "nothing is underway"


def test_the_end_hands_over_whatever_is_held() -> None:
    world = World()
    for number in range(3):
        world.gathering.offer(number)
    world.gathering.release(all_=True)
    assert world.sent == [0, 1, 2]
