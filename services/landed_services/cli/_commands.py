"""Which commands there are. Loads nothing: ``landed --help`` answers at once."""

from __future__ import annotations

import textwrap

from ._exit import EXIT_CODES

# One line a command: name, function, what it does. Only the one that is called is loaded.
COMMANDS = (
    ("up", "landed_services.cli.embedded:up", "start a Kafka and a PostgreSQL on this machine, or find them running"),
    ("down", "landed_services.cli.embedded:down", "stop them; with --wipe also delete their data"),
    ("topics", "landed_services.cli.topics:topics", "create or check the ledger's topics"),
    ("schemas", "landed_services.cli.schemas:schemas", "check or register the events' schemas in a schema registry"),
    ("asyncapi", "landed_services.cli.asyncapi:asyncapi", "print the AsyncAPI document of the topics, with every event's schema"),
    ("migrate", "landed_services.cli.view:migrate", "bring the tables to this release"),
    ("projector", "landed_services.cli.projector:projector", "fold the log into the view and decide claims"),
    ("verify", "landed_services.cli.verify:verify", "compare the tables with the log, byte by byte"),
    ("replay", "landed_services.cli.replay:replay", "what was known when, and who decided, from the topic or a bundle"),
    ("rebuild", "landed_services.cli.view:rebuild", "drop the tables' content and fold the log anew"),
    ("reconciler", "landed_services.cli.reconciler:reconciler", "settle what is in doubt, with your probes"),
    ("compensator", "landed_services.cli.compensator:compensator", "undo failed work, with your inverses"),
    ("contracts", "landed_services.cli.contracts:contracts", "check what your tools declare; schema of contract files"),
    ("reviews", "landed_services.cli.reviews:reviews", "what automation handed over to people: list, show, decide"),
    ("approvals", "landed_services.cli.approvals:approvals", "requests that a person approves first: list, show, approve, deny"),
    ("policies", "landed_services.cli.policies:policies", "what a tenant allows: list, show, set, history"),
    ("breakers", "landed_services.cli.breakers:breakers", "ceilings, what is used of them, which refuse claims: list, show"),
    ("perform", "landed_services.cli.perform:perform", "call a tool by hand, recorded and done once like any other call"),
    ("show", "landed_services.cli.groups:show", "what became of an operation or a group, and who decides what comes next"),
    ("timeline", "landed_services.cli.timeline:timeline", "what happened to an operation or a group, event by event"),
    ("tail", "landed_services.cli.tail:tail", "follow the log as it grows"),
    ("plan", "landed_services.cli.groups:plan", "what undoing a group does, in which order, and why"),
    ("unwind", "landed_services.cli.groups:unwind", "undo a group: no step starts any more, its effects are taken back"),
    ("observe", "landed_services.cli.observe:observe", "what observe mode let through, beside what providers showed"),
    ("drill", "landed_services.cli.drill:drill", "try a contract on a provider whose effects cost nothing"),
    ("sweep", "landed_services.cli.sweep:sweep", "compare a provider's list of effects with the ledger"),
    ("notifier", "landed_services.cli.notifications:notifier", "tell people's systems what waits for a person"),
    ("notifications", "landed_services.cli.notifications:notifications", "what receivers were told, and every try"),
    ("news", "landed_services.cli.news:news", "what providers said that matches no operation"),
    ("completion", "landed_services.cli.completion:completion", "completion of commands and options for bash, zsh or fish"),
    ("doctor", "landed_services.cli.embedded:doctor", "say what is wrong with this machine's set-up and what to do"),
)


def overview() -> str:
    """What ``landed --help`` prints."""
    width = max(len(name) for name, _function, _summary in COMMANDS)
    commands = "\n".join(f"  {name:{width}}  {summary}" for name, _function, summary in COMMANDS)
    codes = "\n".join(f"  {code.value:<{width}}  {meaning}" for code, meaning in EXIT_CODES.items())
    return textwrap.dedent("""\
        Did the effect land? The ledger for side-effecting tool calls of AI agents.

        Usage: landed COMMAND [OPTIONS]      (landed COMMAND --help says more; landed --version)

        Commands:
        {commands}

        Settings:
          LANDED_KAFKA_BOOTSTRAP, LANDED_DATABASE_URL   servers to use instead of embedded ones
          LANDED_HOME    data folder of the embedded ones; else .landed/ in the current directory
          LANDED_CACHE   where their downloads are kept; else landed/ in the user's cache folder
          LANDED_DEBUG   1: a failure shows its traceback

        Exit codes:
        {codes}

        Examples:
          eval "$(landed up)"
          landed doctor -o json
          landed down --wipe --yes
        """).format(commands=commands, codes=codes)
