"""Shares of a work in processes of their own."""

import os
from collections.abc import Callable

import pytest

from landed.adapters.kafka.errors import LogTruncated, LogUnreachable
from landed_services.fanning import ShareFailed, in_processes
from landed_services.progress import Progress, Summed

WORK = f"{__name__}:work"


def work(share: str, say: Callable[[int], None]) -> tuple[str, int]:
    """What a process does in these tests."""
    print("what a work prints does not get among its answers")
    if share == "unreachable":
        raise LogUnreachable("partition 3, offset 7: nothing came")
    if share == "truncated":
        raise LogTruncated(3, 7)
    if share == "dies":
        os._exit(9)
    if share == "waits":
        while True:
            say(1)
    say(5)
    say(10)
    return share, os.getpid()


@pytest.fixture(autouse=True)
def found_by_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.getcwd())


def test_each_share_is_done_in_a_process_of_its_own_and_its_progress_adds_up() -> None:
    told: list[Progress] = []
    found = in_processes(WORK, ["a", "b"], Summed(20, told.append))
    assert [name for name, _ in found] == ["a", "b"]
    assert len({pid for _, pid in found} | {os.getpid()}) == 3
    assert (told[-1].done, told[-1].total) == (20, 20)


def test_a_single_share_needs_no_process() -> None:
    assert in_processes(WORK, ["a"]) == [("a", os.getpid())]


def test_the_first_that_fails_ends_the_others_and_its_error_comes_out() -> None:
    with pytest.raises(LogUnreachable, match="partition 3, offset 7"):
        in_processes(WORK, ["waits", "unreachable"])
    with pytest.raises(ShareFailed, match="LogTruncated: partition 3"):
        in_processes(WORK, ["a", "truncated"])
    with pytest.raises(ShareFailed, match="ended with code 9"):
        in_processes(WORK, ["a", "dies"])
