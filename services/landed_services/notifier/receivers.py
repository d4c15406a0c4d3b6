"""Who is told, and what.

[[receiver]]
name = "acme-ops"
tenant = "acme"
url = "https://hooks.acme.example/landed"    # https, or http on this machine
secret = "env:ACME_OPS_SECRET"               # base64, with or without whsec_: env:NAME or file:PATH
tell = ["review_opened", "review_aged"]      # without it: all
aged_after_hours = [4, 24]                   # a review that is open for so long is told of again
inverse_before_minutes = 60                  # how long before the window of an inverse closes
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

import msgspec
from standardwebhooks import Webhook

from landed.core.contract import Problem
from landed.core.identity import RequestError, check_id
from landed.sdk.errors import SettingsError
from landed.sdk.settings import Secret
from landed_services.secrets import secret_named

Kind = Literal["review_opened", "review_aged", "review_settled", "duplicate_effect", "inverse_window_closing"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_HOURS_MAX: Final = 24 * 365


class Receiver(msgspec.Struct, frozen=True, kw_only=True):
    """One place that is told about one tenant."""

    name: str
    tenant_id: str
    url: str
    secret: Secret
    kinds: tuple[Kind, ...] = KINDS
    aged_ms: tuple[int, ...] = (4 * 3_600_000, 24 * 3_600_000)
    inverse_before_ms: int = 3_600_000


class _Written(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    tenant: str
    url: str
    secret: str
    tell: tuple[Kind, ...] = KINDS
    aged_after_hours: tuple[float, ...] = (4.0, 24.0)
    inverse_before_minutes: float = 60.0


def receivers_from(written: Iterable[Mapping[str, Any]], environment: Mapping[str, str]) -> tuple[Receiver, ...]:
    """Receivers from the tables of the settings.

    Raises:
        SettingsError: lists every field and rule that is broken; shows no secret, and of a URL no more than its host.
    """
    found: list[Problem] = []
    made: dict[str, Receiver] = {}
    for number, table in enumerate(written):
        receiver = _receiver(table, f"receiver[{number}]", environment, found)
        if receiver is not None and receiver.name in made:
            found.append(Problem(f"receiver[{number}].name", f"{receiver.name!r} is the name of another receiver"))
        elif receiver is not None:
            made[receiver.name] = receiver
    if found:
        raise SettingsError("webhook settings", found)
    return tuple(made.values())


def _receiver(table: Mapping[str, Any], field: str, environment: Mapping[str, str], found: list[Problem]) -> Receiver | None:
    try:
        one = msgspec.convert(dict(table), _Written)
    except msgspec.ValidationError as error:
        found.append(Problem(field, str(error)))
        return None
    before = len(found)
    if not _NAME.fullmatch(one.name):
        found.append(Problem(f"{field}.name", "must be 1-63 lower-case letters, digits, hyphens or underscores"))
    try:
        check_id("tenant_id", one.tenant)
    except RequestError as error:
        found.append(Problem(f"{field}.tenant", str(error)))
    if (rule := _broken_rule_of(one.url)) is not None:
        found.append(Problem(f"{field}.url", rule))
    if not all(0 < hours <= _HOURS_MAX for hours in one.aged_after_hours):
        found.append(Problem(f"{field}.aged_after_hours", f"each must be greater than 0 and at most {_HOURS_MAX}"))
    if not 0 < one.inverse_before_minutes <= 60 * _HOURS_MAX:
        found.append(Problem(f"{field}.inverse_before_minutes", "must be greater than 0 and at most a year"))
    secret = secret_named(one.secret, environment, f"{field}.secret", found)
    if secret is not None and not _can_sign(secret):
        found.append(Problem(f"{field}.secret", "must be base64, with or without whsec_ in front"))
    if len(found) > before or secret is None:
        return None
    return Receiver(
        name=one.name,
        tenant_id=one.tenant,
        url=one.url,
        secret=secret,
        kinds=one.tell,
        aged_ms=tuple(sorted({round(hours * 3_600_000) for hours in one.aged_after_hours})),
        inverse_before_ms=round(one.inverse_before_minutes * 60_000),
    )


def _broken_rule_of(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no URL"
    if not host or any(ord(character) <= 32 or ord(character) > 126 for character in url):
        return "is no URL"
    if "@" in parts.netloc:
        return "must not carry credentials: deliveries are signed"
    if parts.scheme == "https" or (parts.scheme == "http" and _is_this_machine(host)):
        return None
    return f"must be https (http only on this machine), got {parts.scheme}://{host}"


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _can_sign(secret: Secret) -> bool:
    try:
        Webhook(secret.value.decode())
    except Exception:
        return False
    return True
