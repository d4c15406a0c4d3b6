"""Several cases at once in real time, each for tenants and tools of its own."""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from landed.adapters.kafka import KafkaEventLog, KafkaSettings, KafkaVerdictInbox, ensure_topics
from landed.adapters.system import RandomIds
from landed.core import events as ev
from landed.core.contract import Contract, Effect
from landed.core.events import Entry
from landed.ports import EventLog, VerdictInbox
from landed.sdk.intent import hash_of, intent_of, prepared
from landed.sdk.settings import key_ring
from landed.testing.cases.comparing import compared
from landed.testing.cases.facts import checks_of
from landed.testing.cases.loading import Case, Step
from landed.testing.cases.playing import Player
from landed.testing.cases.real.door import Door
from landed.testing.cases.real.following import FollowedLedger, Follower
from landed.testing.cases.real.pacing import RealTimeline
from landed.testing.cases.real.tools import DOOR, PLAYED, TERMS
from landed.testing.cases.running import Outcome
from landed.testing.cases.verbs import PLAYED as VERBS
from landed.testing.cases.world import TENANT, NotSupported, World

SERVICES: Final = frozenset({"reconciler", "compensator"})
_ONLY_SIMULATED: Final = frozenset({"projector", "broker", "database"})
_QUIET_S: Final = 1.0
_LONGEST_S: Final = 30.0
_VERDICT_WAIT_S: Final = 20.0
"""A busy machine is not what a case is about."""
_TOOL_FIELDS: Final = ("tool", "probe", "verify", "read", "counts_as")


class RealPlayer(Player):
    """Plays one case; the services of the run do by themselves what ticks are for."""

    def play(self) -> World:
        timeline = self.world.timeline
        if not isinstance(timeline, RealTimeline):
            raise TypeError("a case in real time needs a timeline in real time")
        self.people.declare()
        if any(declared.get("needs_approval") or "ceilings" in declared for declared in self.world.case.contracts.values()):
            time.sleep(1.5)  # until the projector has read the policies
        timeline.begin()
        steps = [step for step in self.world.case.steps if step.actor not in SERVICES]
        for step in steps:
            self._schedule(step)
        last_s = max((step.at for step in steps), default=0.0)
        timeline.run_until(lambda: self._is_over(last_s))
        self.world.end()
        return self.world

    def _is_over(self, last_s: float) -> bool:
        now_s = self.world.timeline.now_s
        if now_s < last_s + _QUIET_S:
            return False
        return now_s > last_s + _LONGEST_S or not compared(self.world.case, self.world).differences

    def _play(self, step: Step) -> None:
        if step.actor in _ONLY_SIMULATED and step.do != "catch_up":
            raise NotSupported(f"{step.actor} {step.do}: real servers are not disturbed; played in simulated time only")
        super()._play(step)


def own_names(case: Case, number: int, run: str) -> Case:
    """*case* with tools and tenants that no other case of the run has."""
    prefix = "".join(chr(ord("a") + int(digit)) for digit in str(number))

    def tool(name: str) -> str:
        return f"{prefix}_{name}" if "." in name else name

    def fields(said: Mapping[str, Any]) -> dict[str, Any]:
        return {name: field(name, value) for name, value in said.items()}

    def field(name: str, value: Any) -> Any:
        if name in _TOOL_FIELDS and isinstance(value, str):
            return tool(value) if value != "*" else value
        match name:
            case "undo":
                return tool(value) if isinstance(value, str) else [tool(one) for one in value]
            case "undo_requires":
                return fields(value)
            case "also":
                return {tool(one): count for one, count in value.items()}
            case _:
                return value

    def step(said: Step) -> Step:
        return replace(said, fields={**fields(said.fields), "tenant": f"{run}-{number}-{said.get('tenant', TENANT)}"})

    steps = tuple(map(step, case.steps))
    return replace(
        case,
        contracts={tool(name): fields(said) for name, said in case.contracts.items()},
        rules=tuple(fields(rule) for rule in case.rules),
        steps=steps,
        effects={tool(name): count for name, count in case.effects.items()},
    )


def play(cases: Sequence[Case], *, bootstrap: str, database_url: str) -> list[Outcome]:
    """Plays *cases* at once, on topics of their own and in the empty database at *database_url*.

    Raises:
        LogUnreachable: the broker does not answer.
        RuntimeError: a service did not begin, or ended before its time.
    """
    run = uuid.uuid4().hex[:8]
    named = [own_names(case, number, run) for number, case in enumerate(cases)]
    settings = KafkaSettings(
        bootstrap=bootstrap,
        ring=key_ring(os.environ, []),
        topic=f"cases.{run}.operations",
        replies_topic=f"cases.{run}.replies",
    )
    ensure_topics(settings, partitions=3)
    worlds: dict[str, World] = {}
    with ExitStack() as stack:
        door = Door(lambda tenant_id: worlds.get(tenant_id))
        stack.callback(door.close)
        stack.enter_context(_services(settings, database_url, named, door.url))
        log = KafkaEventLog(settings)
        stack.callback(log.close, 5.0)
        inbox = KafkaVerdictInbox(settings, f"cases:{run}")
        stack.callback(inbox.close)
        _wait_for_verdicts(log, inbox, run)
        made = [_world(case, log, inbox) for case in named]
        for world in made:
            worlds |= {step.get("tenant"): world for step in world.case.steps}
        follower = Follower(settings, lambda entry: _take(worlds, entry))
        stack.callback(follower.close)
        return _all_at_once(cases, made)


def _wait_for_verdicts(log: EventLog, inbox: VerdictInbox, run: str) -> None:
    """Until a claim is answered: the projector of the run has begun."""
    intent = intent_of(Contract(tool="begin", effect=Effect(kind="begin")), {}, operation_id="begin")
    hashed, deadline = hash_of(intent), time.monotonic() + _LONGEST_S
    while time.monotonic() < deadline:
        now_ms = time.time_ns() // 1_000_000
        claim = ev.Claim(
            claim_id=uuid.uuid4().hex,
            request_hash=hashed,
            worker="cases",
            reply_to=inbox.reply_to,
            lease_ms=1_000,
            asked_at_ms=now_ms,
            answer_by_ms=now_ms + 60_000,
        )
        verdict = inbox.expect(claim.claim_id)
        log.append(prepared(intent, claim, tenant_id=f"{run}-begin", actor="cases", digest_key=None, hashed=hashed))
        with contextlib.suppress(TimeoutError):
            verdict.result(2.0)
            return
    raise RuntimeError(f"no claim was answered within {_LONGEST_S:g} s")


def _world(case: Case, log: EventLog, inbox: VerdictInbox) -> World:
    timeline = RealTimeline()
    return World(
        case,
        timeline=timeline,
        ledger=FollowedLedger(timeline),
        log=log,
        inbox=inbox,
        ids=RandomIds(),
        terms=TERMS,
        verdict_wait_s=_VERDICT_WAIT_S,
    )


def _take(worlds: Mapping[str, World], entry: Entry) -> None:
    world = worlds.get(entry.event.tenant_id)
    ledger = None if world is None else world.ledger
    if world is not None and isinstance(ledger, FollowedLedger):

        def taken() -> None:
            ledger.follow(entry)
            for callback in world.broker.after:
                callback()

        world.timeline.soon(taken)


def _all_at_once(cases: Sequence[Case], worlds: Sequence[World]) -> list[Outcome]:
    outcomes: dict[int, Outcome] = {}

    def run(number: int) -> None:
        outcomes[number] = _played(cases[number], worlds[number])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(cases))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [outcomes[number] for number in range(len(cases))]


def _played(case: Case, world: World) -> Outcome:
    try:
        RealPlayer(world.case, VERBS, world).play()
    except NotSupported as error:
        return Outcome(case=case, result="not supported", because=(str(error),))
    except Exception as error:
        return Outcome(case=case, result="fail", because=(f"raised {type(error).__name__}: {error}",))
    found, checks = compared(world.case, world), checks_of(world.case, world)
    because = (*found.differences, *checks.broken)
    result: Any = "fail" if because else "pass"
    return Outcome(case=case, result=result, because=because, checked=found.checked, checks=checks, for_people=found.for_people)


@contextmanager
def _services(settings: KafkaSettings, database_url: str, cases: list[Case], door: str) -> Iterator[None]:
    """A projector and a reconciler in processes of their own, ended with the run."""
    from landed.adapters.postgres import PostgresSettings, migrate

    migrate(PostgresSettings(url=database_url))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        played = Path(folder) / "cases.json"
        played.write_bytes(msgspec.json.encode(cases))
        environment = {
            **os.environ,
            "LANDED_KAFKA_BOOTSTRAP": settings.bootstrap,
            "LANDED_DATABASE_URL": database_url,
            "LANDED_TOPIC": settings.topic,
            "LANDED_REPLIES_TOPIC": settings.replies_topic,
            DOOR: door,
            PLAYED: str(played),
        }
        for words in (["projector"], ["reconciler", "--tools", f"{__package__}.tools:registry"]):
            stack.enter_context(_service(words, environment, Path(folder)))
        yield


@contextmanager
def _service(words: list[str], environment: Mapping[str, str], folder: Path) -> Iterator[None]:
    code = "from landed_services.cli import main; main()"
    with (folder / f"{words[0]}.log").open("w+b") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *words], env=dict(environment), stdout=output, stderr=subprocess.STDOUT
        )
        try:
            yield
        except Exception as error:
            output.seek(0)
            error.add_note(f"landed {words[0]} said: {output.read()[-2000:].decode(errors='replace')}")
            raise
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
