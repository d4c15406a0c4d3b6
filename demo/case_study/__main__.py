"""The case study: failed trips that are undone, and an agent that loops, on real parts.

Exit code 0 only when every count is right; the counts are the provider's own records. `--json` prints one document on standard
output, and the transcript on standard error.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from demo.case_study import scenarios
from demo.case_study.scene import CommandError, Scene
from demo.case_study.tools import PROVIDER_URL
from demo.screen import Screen
from demo.stage import set_up
from landed.adapters.embedded import EmbeddedError, to_stderr

TOOLS = ("--tools", "demo.case_study.tools:registry")
SERVICES = (("projector",), ("reconciler", *TOOLS), ("compensator", *TOOLS))
SERVER = Path(__file__).with_name("server.py")
PARTS = (
    ("trip-1", "flight, hotel, seat and car; the card is declined", scenarios.declined),
    ("trip-2", "the same, and the answer of the payment is lost", scenarios.unresolved),
    ("trip-3", "an email in the middle, which nothing takes back", scenarios.irreversible),
    ("trip-4", "a hundred charges at once, and a ceiling of twenty", scenarios.runaway),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.case_study", description="Undoing failed trips, and a ceiling.")
    parser.add_argument(
        "--json", action="store_true", help="one JSON document on standard output; the transcript on standard error"
    )
    as_json: bool = parser.parse_args().json
    out = sys.stderr if as_json else sys.stdout
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is taken away again
    screen = Screen(out)
    screen.title(
        "Starting a real Apache Kafka, a real PostgreSQL, projector, reconciler, compensator, and a provider with records"
    )
    told = []
    try:
        with set_up(
            to_stderr, screen.say, name="case-study", server=SERVER, provider_setting=PROVIDER_URL, services=SERVICES
        ) as stage:
            os.environ.update(stage.environment)
            for number, (name, title, play) in enumerate(PARTS, start=1):
                screen.title(f"{number}. {title[0].upper()}{title[1:]}")
                before = len(screen.checks)
                with contextlib.ExitStack() as stack:
                    scene = Scene(screen, stage, stack, name)
                    play(scene)
                    told.append({"name": name, "title": title, "checks": screen.checks[before:], "records": scene.records()})
            _, otherwise = stage.other_decisions()
            screen.title("Every decision on the topic, made again from the facts that it saw")
            screen.check("decisions that would be other ones", otherwise, [])
            told[-1]["checks"] = screen.checks[before:]
    except (EmbeddedError, CommandError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 3
    return finish(screen, told, as_json=as_json)


def finish(screen: Screen, told: Sequence[Mapping[str, Any]], *, as_json: bool) -> int:
    """Says how it went; the exit code."""
    wrong = screen.failed
    if as_json:
        print(json.dumps({"ok": not wrong, "checks": len(screen.checks), "wrong": wrong, "parts": told}, indent=2))
    else:
        said = f"{len(wrong)} of the counts are wrong: {'; '.join(wrong)}" if wrong else "every count is right"
        print(f"\ncase study: {said}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
