"""A schema registry: where it is, and under which subjects the schemas of a topic stand in it."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

import landed_schemas

URL_SETTING: Final = "LANDED_SCHEMA_REGISTRY_URL"
LOGIN_SETTING: Final = "LANDED_SCHEMA_REGISTRY_LOGIN"
CA_SETTING: Final = "LANDED_SCHEMA_REGISTRY_CA"

_LOGIN: Final = re.compile(r"[^:]+:.+", re.DOTALL)


class RegistrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the registry is and who asks it. Shows no password."""

    url: str
    """http or https, without a login; several replicas with commas between."""
    login: str | None = None
    """`user:password` of basic authentication."""
    ca: str | None = None
    """File or folder of the certificates that the registry's is checked against; None: the usual ones."""

    def __repr__(self) -> str:
        return f"RegistrySettings(url={self.url!r}, login={'…' if self.login else None!r}, ca={self.ca!r})"


def registry_from(environment: Mapping[str, str]) -> tuple[RegistrySettings | None, list[tuple[str, str]]]:
    """The registry of *environment*, and every setting that is wrong with the rule that it breaks. None without the URL."""
    url, login, ca = (environment.get(name) or None for name in (URL_SETTING, LOGIN_SETTING, CA_SETTING))
    found: list[tuple[str, str]] = []
    if url is None:
        found += [(name, f"needs {URL_SETTING} beside it") for name, given in ((LOGIN_SETTING, login), (CA_SETTING, ca)) if given]
        return None, found
    if not all(_is_plain(one) for one in url.split(",")):
        # The URL may hold a password, so it is not repeated.
        found.append((URL_SETTING, f"must be http:// or https:// URLs without a login (it goes to {LOGIN_SETTING})"))
    if login is not None and not _LOGIN.fullmatch(login):
        found.append((LOGIN_SETTING, "must be user:password"))
    return (None if found else RegistrySettings(url=url, login=login, ca=ca)), found


def subject(topic: str, schema: landed_schemas.Schema) -> str:
    """The subject of *schema* for records of *topic*: topic and full name of the record, as in Confluent's
    `TopicRecordNameStrategy`, since many kinds of events stand on one topic."""
    return f"{topic}-{schema['name']}"


def _is_plain(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        return False
