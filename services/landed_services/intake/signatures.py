"""Whether a delivery was signed with a secret of its endpoint, and when. In constant time; nothing of the body is read before.

Standard Webhooks by their library; Stripe as its documentation says: `Stripe-Signature: t=<seconds>,v1=<hex>[,v1=…]`, each `v1`
an HMAC-SHA256 of `<t>.<body>`, keyed with the endpoint's secret as it stands (with its `whsec_`).
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from standardwebhooks import Webhook, WebhookVerificationError

from landed_services.intake.endpoints import Endpoint, Scheme

HEADER_CHARACTERS_MAX: Final = 2_048
_SECONDS: Final = re.compile(r"[0-9]{1,12}")
_STANDARD: Final = re.compile(r"v1,[A-Za-z0-9+/]{43}=")
_HEX: Final = re.compile(r"[0-9a-f]{64}")


class Verified(NamedTuple):
    """What the signature vouches for beside the body."""

    webhook_id: str | None
    """Id that the delivery carries outside the body; None where its scheme has none."""


class NotVerified(NamedTuple):
    """Nothing vouches for the delivery."""

    why: Literal["signature_missing", "signature_wrong", "timestamp_refused"]


MISSING: Final = NotVerified("signature_missing")
WRONG: Final = NotVerified("signature_wrong")
NOT_NOW: Final = NotVerified("timestamp_refused")


def verified(endpoint: Endpoint, headers: Mapping[str, str], body: bytes, *, now_s: float) -> Verified | NotVerified:
    """What a signature of *endpoint* vouches for, or why none does.

    Args:
        headers: names in any case.
        now_s: seconds since the epoch, UTC.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    if any(len(lower.get(name, "")) > HEADER_CHARACTERS_MAX for name in _HEADERS):
        return WRONG
    return _stripe(endpoint, lower, body, now_s) if endpoint.scheme is Scheme.STRIPE else _standard(endpoint, lower, body, now_s)


_HEADERS: Final = ("stripe-signature", "webhook-id", "webhook-timestamp", "webhook-signature")


def _standard(endpoint: Endpoint, headers: Mapping[str, str], body: bytes, now_s: float) -> Verified | NotVerified:
    webhook_id, sent, signatures = (headers.get(name) for name in _HEADERS[1:])
    if not webhook_id or not sent or not signatures:
        return MISSING
    if not _recent(sent, endpoint, now_s):
        return NOT_NOW
    # Only signatures that the library can read: it raises at the first other one, and a right one may follow.
    readable = " ".join(one for one in signatures.split(" ") if _STANDARD.fullmatch(one))
    given = {"webhook-id": webhook_id, "webhook-timestamp": sent, "webhook-signature": readable or "v1,"}
    for secret in endpoint.secrets:
        try:
            Webhook(secret.value.decode()).verify(body, given, json_parse=False)
            return Verified(webhook_id)
        except (WebhookVerificationError, ValueError):
            continue
    return WRONG


def _stripe(endpoint: Endpoint, headers: Mapping[str, str], body: bytes, now_s: float) -> Verified | NotVerified:
    header = headers.get("stripe-signature")
    if not header:
        return MISSING
    parts = [part.strip().partition("=") for part in header.split(",")]
    times = [value for name, _, value in parts if name == "t"]
    signatures = [value for name, _, value in parts if name == "v1" and _HEX.fullmatch(value)]
    if len(times) != 1 or not signatures:
        return MISSING
    if not _SECONDS.fullmatch(times[0]):
        return NOT_NOW
    signed = times[0].encode() + b"." + body
    right = False
    for secret in endpoint.secrets:
        expected = hmac.new(secret.value, signed, hashlib.sha256).hexdigest()
        for signature in signatures:
            right = hmac.compare_digest(expected, signature) or right
    if not right:
        return WRONG
    return Verified(None) if _recent(times[0], endpoint, now_s) else NOT_NOW


def _recent(sent: str, endpoint: Endpoint, now_s: float) -> bool:
    return _SECONDS.fullmatch(sent) is not None and abs(now_s - int(sent)) <= endpoint.tolerance_s
