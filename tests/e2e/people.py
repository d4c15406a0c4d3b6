"""People as the tests play them: commands of the command line against the ledger of a test, in this process."""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from landed_services.cli._app import run

from .conftest import RING, TENANT, World

SECRET = "a secret of thirty-two bytes or so"


class Person:
    """Somebody at a terminal."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        assert RING.signing == "writer-1"
        self._world = world
        self._capsys = capsys
        environment = {
            "LANDED_KAFKA_BOOTSTRAP": world.log.bootstrap,
            "LANDED_DATABASE_URL": world.view.url,
            "LANDED_TOPIC": world.log.topic,
            "LANDED_REPLIES_TOPIC": world.log.replies_topic,
            "LANDED_WRITER_KEY_ID": "writer-1",
            "LANDED_WRITER_KEY": SECRET,
            "LANDED_TENANT": TENANT,
            "LANDED_USER": "anna",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    def runs(self, *words: str) -> tuple[int, str, str]:
        """Exit code, standard output and what was said beside it, once everything that happened before is to be seen."""
        self._world.shown()
        self._capsys.readouterr()
        code = run(words)
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def does(self, *words: str) -> str:
        """The output of a command that works."""
        code, out, err = self.runs(*words)
        assert code == 0, err
        return out

    def reads(self, *words: str) -> Any:
        """The JSON of a command that works."""
        return msgspec.json.decode(self.does(*words, "-o", "json"))

    def is_refused(self, *words: str) -> str:
        """Why a command does not work."""
        code, _, err = self.runs(*words)
        assert code != 0
        return err


@pytest.fixture
def person(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Person:
    return Person(world, monkeypatch, capsys)


def until(look: Callable[[], Any]) -> Any:
    """What *look* gives, once it gives something."""
    deadline = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < deadline, "waited 60 s in vain"
        time.sleep(0.05)
    return found
