"""The reference of the command line, from the commands themselves: ``python -m landed_services.cli._reference > docs/cli.md``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

from cyclopts import App

from ._app import build
from ._changes import CHANGES
from ._commands import COMMANDS
from ._exit import EXIT_CODES

HEAD = """\
# Command line

Every command and option; `landed COMMAND --help` says the same. This page is written by
`python -m landed_services.cli._reference > docs/cli.md`.

- **Whose ledger**: `--tenant`, else `LANDED_TENANT`. Which servers: `LANDED_KAFKA_BOOTSTRAP` and `LANDED_DATABASE_URL`, else
  those of `landed up`. Each command that connects says on standard error which ones it uses.
- **Ids** of operations, groups, reviews and approvals may be shortened to a beginning that fits only one of the tenant's; one
  that fits several is an error that lists them.
- **Output**: text for people, at most 80 columns wide where it goes into a pipe, without colours there. `-o json` prints one
  document, `-o jsonl` one object a line. What is said beside the answer goes to standard error. Services write their log as JSON,
  a line each.
- **Errors** are one line on standard error that begins with `landed:`, broken to the width of a terminal, also with `-o json`;
  programs go by the exit code.
- **Dangerous commands** ask first, on standard error. Where nobody can be asked they end with exit code 2; `--yes` does not ask:
{asking}.
- **Ctrl-C** ends a command with exit code 130 and a line that says what it leaves. Services end with 0 after the work at hand.
- **Long work** shows on a terminal how far it is.
- **Completion**: `source <(landed completion bash)`, or `zsh`, or `fish`.

## Exit codes

| code | meaning |
|---|---|
{codes}

Which error ends with which code: [errors.md](errors.md).

## Settings

Variables of the environment; [operations.md](operations.md) has those of services, [sdk.md](sdk.md) those of programs.

| variable | meaning |
|---|---|
{settings}
"""

SETTINGS = {
    "LANDED_KAFKA_BOOTSTRAP": "brokers, `host:port` with commas between; else those of `landed up`",
    "LANDED_DATABASE_URL": "`postgresql://user:password@host:port/database`; else that of `landed up`",
    "LANDED_TOPIC": "topic of the ledger; else `landed.operations`",
    "LANDED_REPLIES_TOPIC": "topic of the answers to callers; else `landed.replies`",
    "LANDED_TENANT": "whose ledger, where `--tenant` does not say it",
    "LANDED_USER": "who decides, where `--by` does not say it; else the login name",
    "LANDED_WORKER": "name of this process on the log",
    "LANDED_WRITER_KEY_ID": "id of the key that records are signed with",
    "LANDED_WRITER_KEY": "that key: text of at least 16 bytes",
    "LANDED_TRUSTED_KEYS": "other writers' keys, `id=key,id=key`; once there is a key, records without a right MAC are refused",
    "LANDED_DIGEST_KEY": "key of the digests that name a differing argument",
    "LANDED_SCHEMA_REGISTRY_URL": "registry of schemas; events are then written in its framing",
    "LANDED_SCHEMA_REGISTRY_LOGIN": "`user:password` at the registry",
    "LANDED_SCHEMA_REGISTRY_CA": "file with the certificates that the registry's is checked with",
    "LANDED_METRICS_PORT": "where a service answers for metrics and health; without it nowhere",
    "LANDED_METRICS_HOST": "address of that; else 127.0.0.1",
    "LANDED_METRICS_PROVIDERS": "provider behind each tool, for the labels",
    "LANDED_WEBHOOKS": "settings file of the notifier and of the webhooks, where `--settings` does not name it",
    "LANDED_HOME": "data folder of `landed up`; else `.landed/` in the current directory",
    "LANDED_CACHE": "folder for downloads; else `landed/` in the user's cache folder",
    "LANDED_DEBUG": "`1`: a failure shows its traceback",
    "LANDED_FAILURE_POINT": "a process ends itself there; for rehearsals only",
}


class Option(NamedTuple):
    names: tuple[str, ...]
    """As they are typed; a positional argument by its name in capitals."""
    help: str
    required: bool
    default: Any
    choices: tuple[str, ...]


class Verb(NamedTuple):
    name: str
    """Without `landed`: `reviews list`."""
    help: str
    examples: tuple[str, ...]
    options: tuple[Option, ...]


def verbs() -> Iterator[Verb]:
    """Every command that does something, in the order of the overview. Loads them all."""
    yield from _below(build(), ())


def _below(app: App, path: tuple[str, ...]) -> Iterator[Verb]:
    for name in app:
        if name.startswith("-"):
            continue
        inner = app[name]
        if inner.default_command is not None:
            text, _, after = inner.help.partition("For example:")
            examples = tuple(line.strip() for line in after.splitlines() if line.strip())
            yield Verb(" ".join((*path, name)), text.strip(), examples, tuple(_options(inner)))
        yield from _below(inner, (*path, name))


def _options(app: App) -> Iterator[Option]:
    for one in app.assemble_argument_collection(parse_docstring=True):
        field = one.field_info
        positional = field.kind is not field.KEYWORD_ONLY
        names = (field.name.rstrip("_").upper(),) if positional else tuple(one.names)
        default = None if field.required else field.default
        yield Option(names, one.parameter.help or "", field.required, default, tuple(one.get_choices() or ()))


def reference() -> str:
    """The page."""
    codes = "\n".join(f"| {code.value} | {meaning} |" for code, meaning in EXIT_CODES.items())
    settings = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in SETTINGS.items())
    summaries = {name: summary for name, _function, summary in COMMANDS}
    asking = textwrap.fill(
        ", ".join(f"`{name}`" for name, change in CHANGES.items() if change.asks),
        130,
        initial_indent="  ",
        subsequent_indent="  ",
        break_on_hyphens=False,
    )
    parts = [HEAD.format(codes=codes, settings=settings, asking=asking)]
    parts += [_section(verb, summaries) for verb in verbs()]
    return "\n".join(parts)


def _section(verb: Verb, summaries: dict[str, str]) -> str:
    text = re.sub(r"\s*\n\s*\n\s*", "\n\n", verb.help)
    text = re.sub(r"(?<!\n)\n[ ]*(?!\n)", "\n", text)
    lines = [f"## `landed {verb.name}`", "", text or summaries.get(verb.name, ""), ""]
    if verb.options:
        lines += ["| option | meaning |", "|---|---|", *(_row(one) for one in verb.options), ""]
    lines += ["```sh", *verb.examples, "```", ""]
    return "\n".join(lines)


def _row(one: Option) -> str:
    names = ", ".join(f"`{name}`" for name in one.names)
    more = []
    if one.required:
        more.append("required")
    if one.choices:
        more.append("one of " + ", ".join(f"`{choice}`" for choice in one.choices))
    if one.default not in (None, False, (), "") and not one.required:
        more.append(f"`{one.default}` unless given")
    also = "; ".join(more)
    said = f"{one.help} {also[:1].upper()}{also[1:]}{'.' if also else ''}".strip().replace("|", "\\|")
    return f"| {names} | {said} |"


if __name__ == "__main__":
    print(reference(), end="")
