"""Makes the incident of docs/walkthrough.md: the real product on real parts, under injected faults, written into a bundle.

    python -m demo.incident FILE [--unrelated 2000]

Exit code 0 only when everything went as the walkthrough tells; else no file is written.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

from demo.case_study.tools import PROVIDER_URL
from demo.incident.story import TENANT, Story
from demo.screen import Screen
from demo.stage import set_up
from landed.adapters.embedded import EmbeddedError, to_stderr
from landed_services.cli._app import run

TOOLS = ("--tools", "demo.incident.tools:registry")
SERVICES = (("projector",), ("reconciler", *TOOLS), ("compensator", *TOOLS))
SERVER = Path(__file__).parent.parent / "case_study" / "server.py"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.incident", description="Makes the incident of docs/walkthrough.md.")
    parser.add_argument("file", type=Path, help="the bundle to write; nothing is overwritten")
    parser.add_argument("--unrelated", type=int, default=2_000, help="operations of other trips (2000)")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is taken away again
    screen = Screen()
    try:
        with set_up(
            to_stderr, screen.say, name="incident", server=SERVER, provider_setting=PROVIDER_URL, services=SERVICES
        ) as stage:
            os.environ.update(stage.environment)
            Story(screen, stage, asked.unrelated).play()
            if screen.failed:
                print(f"\nincident: {len(screen.failed)} of the steps went otherwise: {'; '.join(screen.failed)}")
                return 1
            code = run(["replay", "export", str(asked.file), "--tenant", TENANT])
    except EmbeddedError as error:
        print(f"\n{error}", file=sys.stderr)
        return 3
    if code == 0:
        print(f"incident: {asked.file}, {asked.file.stat().st_size:,} bytes")
    return code


if __name__ == "__main__":
    sys.exit(main())
