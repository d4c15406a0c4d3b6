"""Where the database is."""

from typing import Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from landed.adapters.postgres.errors import DatabaseSettingError

URL_SETTING: Final = "LANDED_DATABASE_URL"
_FORM: Final = "must be a URL; special characters of user and password are percent-encoded"
_SCHEMES: Final = frozenset({"postgresql", "postgres"})


class PostgresSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Connection to the tables of one ledger.

    Raises:
        DatabaseSettingError: the URL is none, names another kind of database, or no database.
    """

    url: str
    """`postgresql://user:password@host:port/database`; parameters of libpq may follow after a question mark."""
    application: str = "landed"
    """Name under which the connections show in `pg_stat_activity`."""
    connect_timeout_s: int = 10
    idle_in_transaction_timeout_ms: int = 10_000
    """A session that stands still inside a transaction for so long is cut off by the server, so that its locks go."""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            _ = parts.port
        except ValueError:
            # Not the error's own words: of a password with a plain `/` they show a part.
            raise DatabaseSettingError(f"{URL_SETTING}: {_FORM}") from None
        if "@" in parts.path + parts.query + parts.fragment:
            raise DatabaseSettingError(f"{URL_SETTING}: {_FORM}")
        if parts.scheme not in _SCHEMES:
            raise DatabaseSettingError(f"{URL_SETTING}: must start with postgresql://, got {parts.scheme or 'no scheme'!r}")
        if not parts.path.strip("/"):
            raise DatabaseSettingError(f"{URL_SETTING}: must name a database after the host, as in postgresql://host/landed")

    @property
    def shown(self) -> str:
        """The URL without password and parameters."""
        parts = urlsplit(self.url)
        user = f"{parts.username}@" if parts.username else ""
        port = f":{parts.port}" if parts.port else ""
        return urlunsplit((parts.scheme, f"{user}{parts.hostname or ''}{port}", parts.path, "", ""))

    def __repr__(self) -> str:
        return f"PostgresSettings({self.shown!r})"
