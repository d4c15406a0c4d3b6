"""Which servers are used: explicit settings win, embedded ones fill in. Always said, so that nobody has to guess."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

import msgspec

from ._errors import NotRunning, WrongSetting
from ._folder import data_folder
from ._instance import Running, embedded, found
from ._part import BOTH, Part
from ._progress import Progress, silent

KAFKA_SETTING = "LANDED_KAFKA_BOOTSTRAP"
POSTGRES_SETTING = "LANDED_DATABASE_URL"


class Servers(msgspec.Struct, frozen=True, kw_only=True):
    """What to connect to, and where each address comes from: a setting's name or the data folder."""

    bootstrap: str
    database_url: str
    kafka_from: str
    postgres_from: str

    def __str__(self) -> str:
        kafka = f"Kafka {self.bootstrap} ({self.kafka_from})"
        return f"Using {kafka}, PostgreSQL {without_password(self.database_url)} ({self.postgres_from})"

    __repr__ = __str__


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def servers(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    progress: Progress = silent,
    say: Callable[[str], None] = _say,
    wipe: bool = False,
    settings: Mapping[str, str] = os.environ,
) -> Iterator[Servers]:
    """Kafka and PostgreSQL for a ``with`` block: those named in *settings*, for the rest embedded ones tied to it.

    Args:
        data_dir: data folder of the embedded ones, as for `embedded`.
        say: gets one line on which servers are used; standard error unless given.
        wipe: delete at the end what the embedded ones kept.
        settings: where ``LANDED_KAFKA_BOOTSTRAP`` and ``LANDED_DATABASE_URL`` are looked up.

    Raises:
        WrongSetting: a setting that cannot be an address.
        EmbeddedError: as `up`.
    """
    bootstrap, database_url = explicit(settings)
    wanted = _unnamed(bootstrap, database_url)
    if not wanted:
        used = _resolved(bootstrap, database_url, None)
        say(str(used))
        yield used
        return
    with embedded(data_dir, progress=progress, parts=wanted, wipe=wipe) as running:
        used = _resolved(bootstrap, database_url, running)
        say(str(used))
        yield used


def find_servers(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    say: Callable[[str], None] = _say,
    settings: Mapping[str, str] = os.environ,
) -> Servers:
    """As `servers`, but starts nothing: for commands that work on what ``landed up`` started.

    Raises:
        WrongSetting: a setting that cannot be an address.
        NotRunning: a server is neither named nor running embedded.
    """
    bootstrap, database_url = explicit(settings)
    wanted = _unnamed(bootstrap, database_url)
    running = found(data_dir, parts=wanted) if wanted else None
    if wanted and running is None:
        raise NotRunning(
            f"no embedded servers run in {data_folder(data_dir)}. Start them with: landed up "
            f"(or set {KAFKA_SETTING} and {POSTGRES_SETTING} to servers that you already have)"
        )
    used = _resolved(bootstrap, database_url, running)
    say(str(used))
    return used


def explicit(settings: Mapping[str, str]) -> tuple[str, str]:
    """The addresses named in *settings*, each empty when it is not.

    Raises:
        WrongSetting: naming the setting and the rule it breaks.
    """
    bootstrap = settings.get(KAFKA_SETTING, "").strip()
    for address in filter(None, bootstrap.split(",")):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise WrongSetting(f"{KAFKA_SETTING} must be host:port, or several with commas between; it has {address!r}")
    database_url = settings.get(POSTGRES_SETTING, "").strip()
    if database_url and not _is_database_url(database_url):
        # The value may hold a password, so it is not repeated.
        form = "postgresql://user:password@host:port/database, special characters of user and password percent-encoded"
        raise WrongSetting(f"{POSTGRES_SETTING} must be a URL: {form}")
    return bootstrap, database_url


def _is_database_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    # A password with a plain `/`, `?` or `#` is cut there: what follows would be shown as the name of the database.
    return parts.scheme in ("postgresql", "postgres") and "@" not in parts.path + parts.query + parts.fragment


def without_password(database_url: str) -> str:
    """*database_url* as it may be shown."""
    parts = urlsplit(database_url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def _unnamed(bootstrap: str, database_url: str) -> frozenset[Part]:
    named = {Part.KAFKA: bootstrap, Part.POSTGRES: database_url}
    return frozenset(part for part in BOTH if not named[part])


def _resolved(bootstrap: str, database_url: str, running: Running | None) -> Servers:
    if running is None:
        return Servers(bootstrap=bootstrap, database_url=database_url, kafka_from=KAFKA_SETTING, postgres_from=POSTGRES_SETTING)
    place = f"embedded in {running.folder}"
    return Servers(
        bootstrap=bootstrap or running.bootstrap,
        database_url=database_url or running.database_url,
        kafka_from=KAFKA_SETTING if bootstrap else place,
        postgres_from=POSTGRES_SETTING if database_url else place,
    )
