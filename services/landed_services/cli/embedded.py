"""``landed up``, ``landed down``, ``landed doctor``: the embedded servers."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from landed.adapters import embedded
from landed.adapters.embedded import Finding, Level, Running

from ._confirm import confirm
from ._exit import CommandFailed, Exit
from ._output import Format, download_progress, note, print_list, print_value

SETTINGS = {"LANDED_KAFKA_BOOTSTRAP": "bootstrap", "LANDED_DATABASE_URL": "database_url"}
WATCH_SECONDS = 0.5

DataDir = Annotated[Path | None, Parameter(help="Data folder; else LANDED_HOME, else .landed/ in the current directory.")]


def up(
    *,
    foreground: Annotated[bool, Parameter(negative="", help="Stay, and stop the servers when this ends.")] = False,
    data_dir: DataDir = None,
    output: Format = "text",
) -> int:
    """Start a Kafka and a PostgreSQL on this machine, or find them running.

    Prints the settings to export on standard output, all else on standard error. The first start downloads 45 MB.

    For example:

        landed up

        eval "$(landed up)"

        landed up --foreground --data-dir /tmp/ledger
    """
    began = time.monotonic()
    with ExitStack() as owned:
        with download_progress() as progress:
            if foreground:
                running, ended = owned.enter_context(embedded.watched(data_dir, progress=progress))
            else:
                running, ended = embedded.up(data_dir, progress=progress), None
        _report(running, time.monotonic() - began, output)
        if ended is None:
            return Exit.DONE
        part = _until_stopped(ended)
    if part is not None:
        tail = "\n  | ".join(embedded.log_tail(running.folder / f"{part}.log"))
        raise CommandFailed(f"{part} has ended by itself. Last lines of its log:\n  | {tail}")
    note(f"Stopped the servers in {running.folder}")
    return Exit.DONE


def down(
    *,
    wipe: Annotated[bool, Parameter(negative="", help="Delete the data of both servers as well.")] = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Do not ask before deleting.")] = False,
    data_dir: DataDir = None,
    output: Format = "text",
) -> int:
    """Stop the servers of a data folder; with --wipe also delete their data. Nothing running is fine.

    For example:

        landed down

        landed down --wipe --yes
    """
    folder = embedded.data_folder(data_dir)
    if wipe:
        question = f"Delete the ledger and the database in {folder}?"
        confirm(question, yes=yes, why="--wipe deletes data", otherwise="Nothing was deleted.")
    ended = sorted(embedded.down(folder, wipe=wipe))
    if output != "text":
        print_value({"folder": str(folder), "stopped": ended, "wiped": wipe}, output)
        return Exit.DONE
    print(f"Stopped {' and '.join(ended)} in {folder}" if ended else f"Nothing was running in {folder}")
    if wipe:
        print("Deleted their data")
    return Exit.DONE


def doctor(*, data_dir: DataDir = None, output: Format = "text") -> int:
    """Say what is wrong and what to do: this machine's set-up, and the ledger where one runs. Exit code 1 for a problem.

    Changes nothing. The ledger's part: broker, topic settings, schema registry, tables, positions and lag, clocks, outbox,
    refused records, keys.

    For example:

        landed doctor

        landed doctor -o json
    """
    note("Looking at this machine, then at the ledger")
    findings: tuple[Finding, ...] = ()
    for look in (embedded.doctor, _ledger):
        found = look(data_dir)
        findings = (*findings, *found)
        if output == "text":
            _print_findings(found)
    if output != "text":
        print_list(findings, output)
    return Exit.FOUND if any(finding.level is Level.PROBLEM for finding in findings) else Exit.DONE


def _ledger(data_dir: Path | None) -> tuple[Finding, ...]:
    try:
        servers = embedded.find_servers(data_dir, say=note)
    except embedded.NotRunning:
        what = "no ledger is looked at: no servers are named and none run in the data folder"
        return (Finding(check="ledger", level=Level.NOTE, what=what, advice="landed up"),)
    except embedded.WrongSetting:
        return ()  # said above
    from landed_services.queries.health import ledger_findings

    from ._settings import database_settings, log_settings

    return ledger_findings(log_settings(servers), database_settings(servers))


def _print_findings(findings: tuple[Finding, ...]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()  # without colours when nobody is watching
    style = {Level.OK: "green", Level.NOTE: "yellow", Level.PROBLEM: "bold red"}
    for finding in findings:
        advice = "".join(f"\n{'':26}{line}" for line in finding.advice.splitlines())
        line = Text(f"{finding.level:8}", style=style[finding.level])
        console.print(line.append(f"{finding.check:18}{finding.what}{advice}", style="default"), soft_wrap=True)


def _report(running: Running, seconds: float, output: Format) -> None:
    values = {name: str(getattr(running, field)) for name, field in SETTINGS.items()}
    if output != "text":
        print_value({"folder": str(running.folder), "started": sorted(running.started), **values}, output)
    else:
        for name, value in values.items():
            print(f"export {name}={shlex.quote(value)}")
    sys.stdout.flush()
    state = f"started {' and '.join(sorted(running.started))}" if running.started else "both ran already"
    note(f"Kafka {running.bootstrap} and PostgreSQL answer ({state}, {seconds:.1f} s); data in {running.folder}")
    for name, value in values.items():
        if os.environ.get(name, value) != value:
            note(f"{name} is set to other servers and wins over these until it is exported anew")


def _until_stopped(ended: embedded.Ended) -> str | None:
    """Wait for Ctrl-C or a request to end; the name of a part when it ended first."""
    asked = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, lambda _number, _frame: asked.set())
    note("Press Ctrl-C to stop")
    while not asked.wait(WATCH_SECONDS):
        if (part := ended()) is not None:
            return part
    return None
