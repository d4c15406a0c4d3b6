"""``landed schemas``: the events' schemas in a schema registry, for consumers that know nothing of this ledger."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from cyclopts import Parameter

from ._confirm import confirm
from ._exit import Exit
from ._output import Format, counted, print_list, print_table, print_text


def schemas(
    action: Annotated[
        Literal["check", "register"], Parameter(help="check: only look. register: add what is missing to the registry.")
    ] = "check",
    *,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Do not ask before registering.")] = False,
    output: Format = "text",
) -> int:
    """Check or register the schemas of the ledger's events in the registry that LANDED_SCHEMA_REGISTRY_URL names.

    Writers that have that setting write in the registry's framing, and ask it at their start for the ids; they register nothing.
    So register before the first of them starts, and again before those of a newer release do. LANDED_TOPIC names the topic: each
    event has the subject TOPIC-landed.events.v1.NAME, with compatibility BACKWARD_TRANSITIVE. What is registered stays.

    Exit code 1: a schema is missing, or the registry holds something else.

    For example:

        landed schemas check

        landed schemas register --yes

        landed schemas check -o json
    """
    from landed.adapters.kafka.registry import SchemaRegistry
    from landed.core.contract import Problem
    from landed.sdk.errors import SettingsError
    from landed.sdk.settings import ledger_topic, schema_registry
    from landed.wire.registry import URL_SETTING

    found: list[Problem] = []
    settings, topic = schema_registry(os.environ, found), ledger_topic(os.environ, found)
    if settings is None and not found:
        found.append(Problem(URL_SETTING, "must name the schema registry"))
    if settings is None or found:
        raise SettingsError("settings", found)
    registry = SchemaRegistry(settings, topic)
    try:
        if action == "register":
            confirm(f"register the schemas of topic {topic} in {settings.url} for good?", yes=yes)
            known = registry.register()
        else:
            known = registry.check()
    finally:
        registry.close()
    wrong = [one for one in known if one.problem]
    if output != "text":
        print_list(known, output)
    else:
        print_table(
            ["event", "id", "version", "problem"],
            [[one.event, _shown(one.id), _shown(one.version), one.problem or "–"] for one in known],
        )
        print_text(f"{counted(len(known), 'schema')} of topic {topic} in {settings.url}: {_verdict(len(wrong))}")
    return Exit.FOUND if wrong else Exit.DONE


def _shown(number: int | None) -> str:
    return "–" if number is None else str(number)


def _verdict(wrong: int) -> str:
    return f"{wrong} not as they should be; `landed schemas register` adds what is missing" if wrong else "all as they should be"
