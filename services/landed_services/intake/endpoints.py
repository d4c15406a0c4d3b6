"""Endpoints that providers deliver to: whose they are, how they sign, and of which tools they speak.

[[endpoint]]
name = "stripe-acme"
tenant = "acme"
scheme = "stripe"                       # or "standard" (Standard Webhooks)
secrets = ["env:ACME_STRIPE_SECRET"]    # several while they are rotated: env:NAME or file:PATH
tools = ["pay.refund"]                  # of these tools it may speak, and of no others
tolerance = 300                         # seconds that a delivery may be old
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec
from standardwebhooks import Webhook

from landed.core.contract import Problem
from landed.core.identity import RequestError, check_id
from landed.sdk.errors import SettingsError
from landed.sdk.settings import Secret
from landed_services.secrets import secret_named

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
TOLERANCE_S_MAX: Final = 3_600.0


class Scheme(StrEnum):
    """How deliveries are signed."""

    STANDARD = "standard"
    STRIPE = "stripe"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One place where a provider delivers for one tenant."""

    name: str
    tenant_id: str
    scheme: Scheme
    secrets: tuple[Secret, ...]
    """Any of them signs: the old and the new one while they are rotated."""
    tools: tuple[str, ...]
    tolerance_s: float = 300.0


class _Written(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    tenant: str
    scheme: Scheme
    secrets: list[str]
    tools: list[str]
    tolerance: float = 300.0


def endpoints_from(written: Iterable[Mapping[str, Any]], environment: Mapping[str, str]) -> dict[str, Endpoint]:
    """Endpoints by name, from the tables of the settings.

    Raises:
        SettingsError: lists every field and rule that is broken; shows no secret.
    """
    found: list[Problem] = []
    made: dict[str, Endpoint] = {}
    owners: dict[bytes, str] = {}
    for number, table in enumerate(written):
        endpoint = _endpoint(table, f"endpoint[{number}]", environment, found)
        if endpoint is None:
            continue
        if endpoint.name in made:
            found.append(Problem(f"endpoint[{number}].name", f"{endpoint.name!r} is the name of another endpoint"))
        for secret in endpoint.secrets:
            # A delivery to one tenant would be right for the other one too.
            if owners.setdefault(secret.value, endpoint.tenant_id) != endpoint.tenant_id:
                found.append(Problem(f"endpoint[{number}].secrets", "another tenant's endpoint has the same secret"))
        made[endpoint.name] = endpoint
    if found:
        raise SettingsError("webhook settings", found)
    return made


def _endpoint(table: Mapping[str, Any], field: str, environment: Mapping[str, str], found: list[Problem]) -> Endpoint | None:
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
    if not 0 < one.tolerance <= TOLERANCE_S_MAX:
        found.append(Problem(f"{field}.tolerance", f"must be greater than 0 and at most {TOLERANCE_S_MAX:.0f} (seconds)"))
    if one.scheme is Scheme.STANDARD and one.tolerance != 300.0:
        found.append(Problem(f"{field}.tolerance", "is 300 seconds under Standard Webhooks"))
    if not one.secrets:
        found.append(Problem(f"{field}.secrets", "must name at least one secret"))
    if not one.tools:
        found.append(Problem(f"{field}.tools", "must name at least one tool: of no other may the endpoint speak"))
    secrets = []
    for number, name in enumerate(one.secrets):
        secret = secret_named(name, environment, f"{field}.secrets[{number}]", found)
        if secret is not None and one.scheme is Scheme.STANDARD and not standard_secret(secret):
            found.append(Problem(f"{field}.secrets[{number}]", "must be base64, with or without whsec_ in front"))
        elif secret is not None:
            secrets.append(secret)
    if len(found) > before:
        return None
    return Endpoint(
        name=one.name,
        tenant_id=one.tenant,
        scheme=one.scheme,
        secrets=tuple(secrets),
        tools=tuple(one.tools),
        tolerance_s=one.tolerance,
    )


def standard_secret(secret: Secret) -> bool:
    """Whether Standard Webhooks can sign with *secret*."""
    try:
        Webhook(secret.value.decode())
    except Exception:
        return False
    return True
