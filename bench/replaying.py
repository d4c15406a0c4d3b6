"""`python -m bench.replaying`: what a replay costs, stage by stage, in µs of CPU an event; by default without any server."""

import argparse
import gc
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import msgspec

from bench.ledger import RING, Place, new_place
from bench.rebuilding import _story, rebuild, write_log
from landed.adapters.embedded import embedded
from landed.core import events as ev
from landed.core.fold import empty_route, fold
from landed.core.state import Route
from landed.wire import records
from landed.wire.codec import decode
from landed.wire.records import HEADER_KEY_ID, HEADER_MAC, Record
from landed_services.reading import Item, read_item
from landed_services.replay.scope import Scope
from landed_services.replay.telling import Story

PARTITIONS = 12


def log_of(operations: int) -> list[Record]:
    """Records of that many operations, three events each, in the order of their partitions."""
    found: list[Record] = []
    places = [0] * PARTITIONS
    for number in range(operations):
        for event in _story(number):
            out = records.write(event, ring=RING, nonce=f"n{number}", partitions=PARTITIONS)
            found.append(
                Record(
                    key=out.key,
                    value=out.value,
                    headers=out.headers,
                    partition=out.partition,
                    offset=places[out.partition],
                    timestamp_ms=1_700_000_000_000 + number,
                )
            )
            places[out.partition] += 1
    return found


def stages(log: Sequence[Record], *, rounds: int = 5) -> dict[str, float]:
    """Microseconds of CPU an event; of *rounds* the least."""
    found: dict[str, float] = {}

    def measure(name: str, work: Callable[[], object]) -> None:
        least = float("inf")
        for _ in range(rounds):
            gc.collect()
            began = time.thread_time()
            work()
            least = min(least, time.thread_time() - began)
        found[name] = least / len(log) * 1e6

    other = Scope(tenant_id="somebody", group="else")
    mine = Scope(tenant_id="acme")
    everything = Scope()
    measure("key of another group", lambda: [other.admits_key(one.key) for one in log])
    measure("key of this tenant", lambda: [mine.admits_key(one.key) for one in log])
    measure("MAC", lambda: _verified(log))
    measure("Avro", lambda: [decode(one.value or b"") for one in log])
    measure("record to event, all checks", lambda: [_item(one) for one in log])
    items = [_item(one) for one in log]
    measure("fold", lambda: _folded(items))

    measure("fold for states alone", lambda: Story(everything, told=False).follow(items))

    def told() -> None:
        for _ in Story(everything).lines(items):
            pass

    measure("fold and tell", told)

    def whole() -> None:
        for _ in Story(everything).lines(_item(one) for one in log if everything.admits_key(one.key)):
            pass

    measure("whole", whole)
    return found


def _verified(log: Sequence[Record]) -> None:
    for record in log:
        headers = dict(record.headers)
        RING.verify(record.key or b"", record.value or b"", (headers[HEADER_KEY_ID] or b"").decode(), headers[HEADER_MAC])


def _item(record: Record) -> Item:
    return read_item(record, ring=RING, partitions=PARTITIONS)


def _folded(items: Sequence[Item]) -> None:
    routes: dict[tuple[str, str], Route] = {}
    for item in items:
        entry = item.what
        assert isinstance(entry, ev.Entry)
        key = (entry.event.tenant_id, entry.event.route)
        routes[key] = fold(routes.get(key) or empty_route(*key), entry).route


class Whole(msgspec.Struct, kw_only=True):
    """`landed replay --all-tenants` of a topic, as a person runs it."""

    output: str
    seconds: float
    cpu_s: float
    """Of all its processes."""
    peak_mib: float
    """Of the largest of them."""
    mib: float
    """What it printed."""


def whole(place: Place, *asked: str, output: str = "jsonl") -> Whole:
    """Runs the command and throws away what it prints."""
    words = place.command("replay", *asked, "-o", output)
    before, began = os.times(), time.monotonic()
    with subprocess.Popen(words, env=place.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdout is not None
        size = 0
        while some := running.stdout.read(1 << 20):
            size += len(some)
    if running.returncode:
        raise RuntimeError(f"landed replay ended with code {running.returncode}")
    after, seconds = os.times(), time.monotonic() - began
    cpu_s = after.children_user - before.children_user + after.children_system - before.children_system
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return Whole(output=output, seconds=seconds, cpu_s=cpu_s, peak_mib=peak, mib=size / 2**20)


def from_topic(events: int, processes: int, *, locate: bool) -> None:
    """Fills a topic on servers of its own, and tells all of it.

    Args:
        locate: fills the database too, and asks it where one operation lies.
    """
    with tempfile.TemporaryDirectory(prefix="landed-bench-") as folder, embedded(folder, wipe=True) as running:
        place = new_place(running.bootstrap, running.database_url)
        began = time.monotonic()
        written = write_log(place, events, shuffled=False)
        print(f"{written:,} events written in {time.monotonic() - began:.0f} s", flush=True)
        for output in ("jsonl", "html"):
            one = whole(place, "--all-tenants", "--processes", str(processes), output=output)
            print(
                f"{output:5}  {written:,} events by {processes} processes: {one.seconds:.1f} s, "
                f"{one.cpu_s / written * 1e6:.0f} µs of CPU an event, {one.peak_mib:.0f} MiB at most, {one.mib:.0f} MiB printed",
                flush=True,
            )
        name = f"order-{events // 6:08d}"
        state = ("--tenant", "acme", "--at", "2100-01-01T00:00:00")
        ways: dict[str, tuple[str, ...]] = {"its id alone": ("--operation", name), "its group": ("--group", name)}
        if locate:
            done = rebuild(place, written)
            print(f"database filled in {done.seconds:.0f} s", flush=True)
            ways["its id, located by the database"] = ("--operation", name, "--locate")
        for what, asked in ways.items():
            one = min((whole(place, *state, *asked) for _ in range(3)), key=lambda one: one.seconds)
            print(f"state of one operation by {what}: {one.seconds:.2f} s, {one.cpu_s:.2f} s of CPU", flush=True)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.replaying", description=__doc__)
    parser.add_argument("--events", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--topic", type=int, metavar="EVENTS", help="instead: a topic of that length, read and told whole")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--locate", action="store_true", help="with --topic: one operation also where the database says it lies")
    given = parser.parse_args(words)
    if given.topic is not None:
        # Ended from outside it still takes its servers and its folder with it.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        from_topic(given.topic, given.processes, locate=given.locate)
        return
    log = log_of(given.events // 3)
    gc.disable()
    found = stages(log, rounds=given.rounds)
    width = max(map(len, found))
    for name, micros in found.items():
        print(f"{name:<{width}}  {micros:6.2f} µs")
    print(f"{'events a second and core, without fetching':<{width}}  {1e6 / found['whole']:,.0f}")


if __name__ == "__main__":
    main()
