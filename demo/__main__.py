"""The main job, on real parts: a refund whose answer is lost is made once, found, and answered with its receipt.

Exit code 0 only when every count is right. The provider (localstripe) was written by others and honours no idempotency key; the
counts are its own list of refunds, asked for directly and not through the proxy.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from demo import provider
from demo.screen import Screen
from demo.stage import ROOT, Stage, set_up
from demo.tools import DIE_AFTER_EFFECT, refund
from landed import Confirmed, Ledger, Unknown
from landed.adapters.embedded import EmbeddedError, to_stderr
from landed.core.state import Operation
from landed.core.wording import label, sentence
from landed.testing.fault_proxy import CommitThenDrop
from landed_services.queries.timeline import timeline

AMOUNT = 1250


def main() -> int:
    screen = Screen()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is taken away again
    screen.title("Starting a real Apache Kafka, a real PostgreSQL, a projector, a reconciler, and a Stripe-compatible provider")
    try:
        with set_up(to_stderr, screen.say) as stage:
            os.environ.update(stage.environment)
            direct = provider.Client(stage.provider.url)
            lost_answer(screen, stage, direct)
            killed_caller(screen, stage, direct)
            naive_retry(screen, stage, direct)
            made_again(screen, stage)
    except EmbeddedError as error:
        print(f"\n{error}", file=sys.stderr)
        return 3
    print()
    if screen.failed:
        print(f"demo: {len(screen.failed)} of the counts are wrong: {'; '.join(screen.failed)}")
        return 1
    print("demo: every count is right")
    return 0


def made_again(screen: Screen, stage: Stage) -> None:
    decisions, otherwise = stage.other_decisions()
    screen.title("And from the log alone: every decision made again from the facts that it saw")
    screen.check("there are decisions on the log", decisions > 0, True)
    screen.check("decisions that would be other ones", otherwise, [])


def lost_answer(screen: Screen, stage: Stage, direct: provider.Client) -> None:
    screen.title("1. One refund is intended. The provider makes it, then the connection breaks")
    charge = direct.create_charge(AMOUNT)
    operation_id = f"refund:{charge.id}"
    screen.say(f"charge {charge.id} of {AMOUNT / 100:.2f} EUR; the provider's list of its refunds:")
    refunds(screen, direct, charge.id, expected=0)
    stage.proxy.arm(CommitThenDrop(), method="POST", path="/v1/refunds")
    with Ledger.connect() as ledger:
        result = ledger.perform(refund, charge=charge.id, amount=AMOUNT)
        screen.say(f"the caller gets an honest answer, at once: {short(result)}")
        screen.check("result of the first call", type(result).__name__, "Unknown")
        screen.check("may the caller retry", isinstance(result, Unknown) and result.retry_allowed, False)
        refunds(screen, direct, charge.id, expected=1)
        operation = settled(stage, operation_id, lambda one: one.state == "confirmed")
        screen.say(f"the reconciler asked the provider: {label(operation)}. {sentence(operation)}")
        screen.check("state in the ledger", str(operation.state), "confirmed")
        screen.title("2. The same refund is asked for again")
        again = ledger.perform(refund, charge=charge.id, amount=AMOUNT)
        screen.say(f"nothing is sent; the original receipt comes back: {short(again)}")
        made = direct.list_refunds(charge=charge.id)
        screen.check("result of the second call", type(again).__name__, "Confirmed")
        if isinstance(again, Confirmed):
            screen.check("it repeats an earlier outcome", again.repeated, True)
            screen.check("receipt is the provider's refund", (again.receipt or {}).get("id"), made[0].id if made else None)
        refunds(screen, direct, charge.id, expected=1)
        screen.check("requests to make a refund that reached the provider", posts(stage), 1)
    show_timeline(screen, stage, operation_id)


def killed_caller(screen: Screen, stage: Stage, direct: provider.Client) -> None:
    screen.title("3. A caller is killed (kill -9) after the effect and before it told anybody")
    charge = direct.create_charge(AMOUNT)
    operation_id = f"refund:{charge.id}"
    before = posts(stage)
    code, _ = caller(charge.id, die=True)
    screen.say(f"the caller's process ended with signal {-code}; nobody recorded an outcome")
    screen.check("signal that ended the caller", -code, 9)
    refunds(screen, direct, charge.id, expected=1)
    operation = settled(stage, operation_id, lambda one: one.state == "confirmed")
    screen.say(f"its lease ran out, the reconciler asked the provider: {label(operation)}. {sentence(operation)}")
    code, result = caller(charge.id)
    screen.say(f"the restarted caller performs the same refund: {result.get('result')}, receipt {result.get('reference')}")
    screen.check("result of the restarted caller", (code, result.get("result"), result.get("repeated")), (0, "Confirmed", True))
    refunds(screen, direct, charge.id, expected=1)
    screen.check("requests to make a refund that reached the provider", posts(stage) - before, 1)
    show_timeline(screen, stage, operation_id)


def naive_retry(screen: Screen, stage: Stage, direct: provider.Client) -> None:
    screen.title("4. For contrast: the same lost answer and a plain retry, without a ledger")
    charge = direct.create_charge(AMOUNT)
    stage.proxy.arm(CommitThenDrop(), method="POST", path="/v1/refunds")
    through_proxy = provider.Client(stage.proxy.url)
    for attempt in (1, 2):
        try:
            made = through_proxy.create_refund(charge.id, AMOUNT, {"order": "1"})
            screen.say(f"attempt {attempt}: refund {made.id}")
        except provider.ResponseLost as error:
            screen.say(f"attempt {attempt}: {type(error).__name__}, so it is sent again")
    refunds(screen, direct, charge.id, expected=2)


# ---- what is shown ------------------------------------------------------------------------------------------------------


def refunds(screen: Screen, direct: provider.Client, charge: str, *, expected: int) -> None:
    found = direct.list_refunds(charge=charge)
    rows = [(one.id, str(one.amount), str(one.status), json.dumps(dict(one.metadata))) for one in found]
    if rows:
        screen.table(("refund", "amount", "status", "metadata"), rows)
    screen.check("refunds at the provider", len(found), expected)


def show_timeline(screen: Screen, stage: Stage, operation_id: str) -> None:
    screen.say(f"what the ledger says of {operation_id}, read from the topic:")
    rows, _ = timeline(stage.entries(operation_id), operation_id)
    screen.table(
        ("time (UTC)", "at", "event", "actor", "evidence"),
        [
            (
                clock(row.at_ms),
                f"{row.partition}/{row.offset}",
                row.event if row.accepted else f"{row.event} (not taken: {row.reason})",
                row.actor,
                row.evidence,
            )
            for row in rows
        ],
    )


def short(result: object) -> str:
    """A result in one line."""
    match result:
        case Unknown():
            return f"Unknown ({result.reason}), retry_allowed={result.retry_allowed}"
        case Confirmed():
            return f"Confirmed, receipt {result.reference}, repeated={result.repeated}, as of {clock(result.at_ms)}"
        case _:
            return repr(result)


def clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]


def posts(stage: Stage) -> int:
    """Requests to make a refund that the proxy passed on to the provider."""
    return sum(one.sent for one in stage.proxy.exchanges if one.method == "POST" and one.path.startswith("/v1/refunds"))


# ---- what is done -------------------------------------------------------------------------------------------------------


def caller(charge: str, *, die: bool = False) -> tuple[int, dict[str, object]]:
    """One agent process; its exit code (negative: the signal) and what it printed."""
    environment = {**os.environ, **({DIE_AFTER_EFFECT: "1"} if die else {})}
    command = [sys.executable, "-m", "demo.caller", charge, str(AMOUNT)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode > 0:
        print(done.stderr, file=sys.stderr)
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}


def settled(stage: Stage, operation_id: str, done: Callable[[Operation], bool], *, timeout_s: float = 60.0) -> Operation:
    """The operation as the log folds, once *done* holds or the time is over."""
    deadline = time.monotonic() + timeout_s
    while True:
        _, route = timeline(stage.entries(operation_id), operation_id)
        operation = route.operation(operation_id) if route else Operation(operation_id=operation_id)
        if done(operation) or time.monotonic() > deadline:
            return operation
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
