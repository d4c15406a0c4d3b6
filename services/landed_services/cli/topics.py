"""``landed topics``: the ledger's topics."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from ._exit import Exit, require
from ._output import Format, note, print_text, print_value
from ._settings import ledger_servers, log_settings


def topics(
    action: Annotated[Literal["create", "check"], Parameter(help="create: what is missing; check: only look.")] = "check",
    *,
    partitions: Annotated[int, Parameter(help="Partitions of a new topic; fixed for good.")] = 12,
    replication: Annotated[int, Parameter(help="Copies of each partition; 3 in production.")] = 1,
    output: Format = "text",
) -> int:
    """Create or check the topics that the ledger stands on.

    Exit code 1: a topic has settings that the guarantees do not hold on.

    For example:

        landed topics create --partitions 12 --replication 3

        landed topics check -o json
    """
    require("--partitions", 1 <= partitions <= 10_000, "must be 1 to 10000")
    require("--replication", 1 <= replication <= 100, "must be 1 to 100")
    servers = ledger_servers()
    from landed.adapters.kafka import TopicUnfit, check_replies, check_topic, ensure_topics

    settings = log_settings(servers)
    there = set()
    if action == "create":
        for check in (check_topic, check_replies):
            with suppress(TopicUnfit):
                there.add(check(settings).topic)
        facts = ensure_topics(settings, partitions=partitions, replication=replication)
    else:
        facts = check_topic(settings)
    replies = check_replies(settings)
    if output != "text":
        print_value({**msgspec.to_builtins(facts), "replies": msgspec.to_builtins(replies)}, output)
    else:
        for one in (facts, replies):
            known = {"check": "", "create": ", was there already" if one.topic in there else ", created"}[action]
            print_text(f"{one.topic}: {one.partitions} partitions, id {one.topic_id}{known}")
            for problem in one.problems:
                print_text(f"wrong: {problem}", indent="  ", rest="    ")
    fixed = {one.partitions for one in (facts, replies) if one.topic in there} - {partitions}
    if fixed:
        note(f"Partitions of a topic that is there are fixed for good: --partitions {partitions} changes nothing of it")
    return Exit.FOUND if facts.problems or replies.problems else Exit.DONE
