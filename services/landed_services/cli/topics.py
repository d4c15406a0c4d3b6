"""``landed topics``: the ledger's topics."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from ._exit import Exit, require
from ._output import Format, print_text, print_value
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
    from landed.adapters.kafka import check_replies, check_topic, ensure_topics

    settings = log_settings(servers)
    if action == "create":
        facts = ensure_topics(settings, partitions=partitions, replication=replication)
    else:
        facts = check_topic(settings)
    replies = check_replies(settings)
    if output != "text":
        print_value({**msgspec.to_builtins(facts), "replies": msgspec.to_builtins(replies)}, output)
    else:
        for one in (facts, replies):
            print(f"{one.topic}: {one.partitions} partitions, id {one.topic_id}")
            for problem in one.problems:
                print_text(f"wrong: {problem}", indent="  ", rest="    ")
    return Exit.FOUND if facts.problems or replies.problems else Exit.DONE
