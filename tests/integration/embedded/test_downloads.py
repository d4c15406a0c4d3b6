"""How the jars of Kafka come to a machine, against a repository on this one that serves what was fetched before."""

from __future__ import annotations

import gc
import subprocess
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from landed.adapters.embedded import DownloadFailed, Step, cache_folder, embedded, silent
from landed.adapters.embedded import _downloads as downloads

from .support import SLACK, pids_on

# The Maven resolver leaves answers that it did not read whole to the garbage collector, which then names their sockets.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(autouse=True)
def _left_answers() -> Iterator[None]:
    """Collects them here, where they are expected, and not during somebody else's test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class Repository:
    """A Maven repository at ``url``; ``asked`` counts requests by file, ``spoil`` changes what is sent."""

    def __init__(self, jars: Path) -> None:
        self.asked: Counter[str] = Counter()
        self.spoil: Callable[[bytes], bytes] = lambda content: content
        repository = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.rpartition("/")[2]
                repository.asked[name] += 1
                if not (jars / name).exists():
                    self.send_error(404)
                    return
                content = repository.spoil((jars / name).read_bytes())
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                with suppress(ConnectionError):  # whoever asked may have been killed
                    self.wfile.write(content)

            def log_message(self, *_arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def jars_asked(self) -> Counter[str]:
        return Counter({name: count for name, count in self.asked.items() if name.endswith(".jar")})


@pytest.fixture
def repository(prepared_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """The only repository this test reaches, and an empty cache. What it serves was fetched for *prepared_folder*."""
    served = Repository(downloads.kafka_jars(silent))
    threading.Thread(target=served.server.serve_forever, daemon=True).start()
    configuration = tmp_path / "jgo.conf"
    configuration.write_text(f"[repositories]\ncentral = {served.url}\n")
    monkeypatch.setenv("JGO_CONFIG_FILE", str(configuration))
    monkeypatch.setenv("LANDED_CACHE", str(tmp_path / "cache"))
    yield served
    served.server.shutdown()
    served.server.server_close()


def test_every_jar_is_fetched_once_checked_and_kept(repository: Repository) -> None:
    steps: list[Step] = []
    folder = downloads.kafka_jars(steps.append)
    names = {jar.file_name for jar in downloads.jars()}
    assert {path.name for path in folder.iterdir()} == names
    assert repository.jars_asked() == Counter(names)
    assert steps[-1].bytes_done == steps[-1].bytes_total == sum(jar.size for jar in downloads.jars())
    assert downloads.kafka_jars(silent) == folder
    assert repository.jars_asked() == Counter(names), "the second time nothing is asked for"


def test_a_jar_that_was_changed_in_the_cache_is_fetched_again(repository: Repository) -> None:
    folder = downloads.kafka_jars(silent)
    changed = folder / "kafka-server-4.4.0.jar"
    changed.write_bytes(changed.read_bytes()[:-1] + b"x")
    downloads.kafka_jars(silent)
    assert repository.jars_asked()["kafka-server-4.4.0.jar"] == 2
    assert downloads.cached()


def test_what_does_not_fit_its_sum_is_refused_and_not_kept(repository: Repository) -> None:
    repository.spoil = lambda content: content[:-1] + b"x"
    with pytest.raises(DownloadFailed, match="SHA-256"):
        downloads.kafka_jars(silent)
    assert list(cache_folder().rglob("*.jar")) == []


FETCH = """
from landed.adapters.embedded import _downloads, silent
_downloads.kafka_jars(silent)
"""


def test_two_processes_at_once_fetch_each_jar_once(repository: Repository, script: Callable[..., subprocess.Popen[str]]) -> None:
    processes = [script(FETCH), script(FETCH)]
    for process in processes:
        _output, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
    assert repository.jars_asked() == Counter(jar.file_name for jar in downloads.jars())


def test_a_killed_download_leaves_nothing_that_is_taken_for_a_jar(
    repository: Repository, script: Callable[..., subprocess.Popen[str]]
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def stall(content: bytes) -> bytes:
        asked.set()
        go_on.wait(60)
        return content

    repository.spoil = stall
    with script(FETCH) as process:
        assert asked.wait(60)
        process.kill()
    go_on.set()
    assert not downloads.cached()
    assert {path.name for path in downloads.kafka_jars(silent).iterdir()} == {jar.file_name for jar in downloads.jars()}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the resolver closes no broken answer
def test_an_interrupted_download_stops_at_once(repository: Repository) -> None:
    began = time.monotonic()

    def interrupt(step: Step) -> None:
        if step.bytes_done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        downloads.fetch(interrupt)
    gc.collect()
    assert time.monotonic() - began < 5 * SLACK
    assert not downloads.cached()


def test_without_network_the_message_names_the_setting_for_an_existing_kafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANDED_CACHE", str(tmp_path / "cache"))
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.delenv("NO_PROXY", raising=False)
    began = time.monotonic()
    with pytest.raises(DownloadFailed, match="set LANDED_KAFKA_BOOTSTRAP=host:port"), embedded(tmp_path / "data"):
        pass
    assert time.monotonic() - began < 60
    assert not pids_on(tmp_path)
