"""Who may bring news: a signature with a secret of the endpoint, in time. Nothing else is believed."""

import base64
import hashlib
import hmac
import time
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from landed.sdk.errors import SettingsError
from landed.sdk.settings import Secret
from landed_services.intake import Endpoint, Scheme, endpoints_from
from landed_services.intake.signatures import NotVerified, Verified, verified

BODY = b'{"id": "evt_1"}'
NOW = time.time()
OLD, NEW, STRANGE = ("whsec_" + base64.b64encode(bytes([n]) * 24).decode() for n in (1, 2, 3))


def endpoint(scheme: Scheme, *secrets: str) -> Endpoint:
    named = tuple(Secret(secret.encode()) for secret in secrets)
    return Endpoint(name="psp", tenant_id="acme", scheme=scheme, secrets=named, tools=("pay",))


STRIPE, STANDARD = endpoint(Scheme.STRIPE, OLD, NEW), endpoint(Scheme.STANDARD, OLD, NEW)


def v1(secret: str, at: float, body: bytes = BODY) -> str:
    return hmac.new(secret.encode(), f"{int(at)}.".encode() + body, hashlib.sha256).hexdigest()


def stripe(*secrets: str, at: float = NOW, body: bytes = BODY) -> dict[str, str]:
    return {"Stripe-Signature": ",".join([f"t={int(at)}", *(f"v1={v1(secret, at, body)}" for secret in secrets)])}


def standard(secret: str, *, at: float = NOW, body: bytes = BODY, before: str = "") -> dict[str, str]:
    signature = Webhook(secret).sign("msg_1", datetime.fromtimestamp(int(at), tz=UTC), body.decode())
    return {"Webhook-Id": "msg_1", "webhook-timestamp": str(int(at)), "webhook-signature": before + signature}


@pytest.mark.parametrize("secret", [OLD, NEW])
def test_the_old_and_the_new_secret_sign_while_they_are_rotated(secret: str) -> None:
    assert verified(STRIPE, stripe(secret), BODY, now_s=NOW) == Verified(None)
    assert verified(STANDARD, standard(secret), BODY, now_s=NOW) == Verified("msg_1")


def test_one_right_signature_among_others_is_enough() -> None:
    assert verified(STRIPE, stripe(STRANGE, NEW), BODY, now_s=NOW) == Verified(None)
    for other in ("v2,abc ", "nonsense ", "v1,!! ", f"v1,{base64.b64encode(bytes(32)).decode()} "):
        assert verified(STANDARD, standard(OLD, before=other), BODY, now_s=NOW) == Verified("msg_1")


V0 = {"Stripe-Signature": f"t={int(NOW)},v0={v1(OLD, NOW)}"}
TWO_TIMES = {"Stripe-Signature": f"t={int(NOW)},t={int(NOW) - 9},v1={v1(OLD, NOW)}"}
ENDLESS = {"Stripe-Signature": stripe(OLD)["Stripe-Signature"] + ",v1=0" * 999}
REFUSED = [
    ("no header", STRIPE, {}, BODY, "signature_missing"),
    ("another scheme of Stripe", STRIPE, V0, BODY, "signature_missing"),
    ("two times", STRIPE, TWO_TIMES, BODY, "signature_missing"),
    ("a stranger's secret", STRIPE, stripe(STRANGE), BODY, "signature_wrong"),
    ("another body", STRIPE, stripe(OLD), BODY + b" ", "signature_wrong"),
    ("too old", STRIPE, stripe(OLD, at=NOW - 301), BODY, "timestamp_refused"),
    ("of the future", STRIPE, stripe(OLD, at=NOW + 301), BODY, "timestamp_refused"),
    ("a header without end", STRIPE, ENDLESS, BODY, "signature_wrong"),
    ("no time", STRIPE, {"Stripe-Signature": f"t=\udce9,v1={v1(OLD, NOW)}"}, BODY, "timestamp_refused"),
    ("standard: no text in the id", STANDARD, {**standard(OLD), "Webhook-Id": "\udce9"}, BODY, "signature_wrong"),
    ("standard: no header", STANDARD, {}, BODY, "signature_missing"),
    ("standard: a stranger's secret", STANDARD, standard(STRANGE), BODY, "signature_wrong"),
    ("standard: another body", STANDARD, standard(OLD), BODY + b" ", "signature_wrong"),
    ("standard: another id", STANDARD, {**standard(OLD), "Webhook-Id": "msg_2"}, BODY, "signature_wrong"),
    ("standard: too old", STANDARD, standard(OLD, at=NOW - 301), BODY, "timestamp_refused"),
    ("standard: of the future", STANDARD, standard(OLD, at=NOW + 302), BODY, "timestamp_refused"),
    ("standard: no time", STANDARD, {**standard(OLD), "webhook-timestamp": "nan"}, BODY, "timestamp_refused"),
    ("standard: no text", STANDARD, standard(OLD), b"\xff", "signature_wrong"),
    ("standard: only malformed", STANDARD, {**standard(OLD), "webhook-signature": "v1"}, BODY, "signature_wrong"),
    ("the other scheme's header", STANDARD, stripe(OLD), BODY, "signature_missing"),
]  # fmt: skip


@pytest.mark.parametrize(("title", "at", "headers", "body", "why"), REFUSED, ids=[one[0] for one in REFUSED])
def test_a_delivery_without_a_right_and_recent_signature_is_refused_with_the_reason(
    title: str, at: Endpoint, headers: dict[str, str], body: bytes, why: str
) -> None:
    refused = verified(at, headers, body, now_s=NOW)
    assert isinstance(refused, NotVerified)
    assert refused.why == why


# ---- settings -----------------------------------------------------------------------------------------------------------

TABLE = {"name": "psp", "tenant": "acme", "scheme": "stripe", "secrets": ["env:PSP"], "tools": ["pay"]}
ENVIRONMENT = {"PSP": OLD, "PSP_B": NEW, "SHORT": "whsec_short"}


def test_an_endpoint_belongs_to_one_tenant_and_shows_no_secret() -> None:
    made = endpoints_from([TABLE, {**TABLE, "name": "psp-b", "tenant": "b", "secrets": ["env:PSP_B"]}], ENVIRONMENT)
    assert {name: one.tenant_id for name, one in made.items()} == {"psp": "acme", "psp-b": "b"}
    assert OLD not in repr(made)


BROKEN = [
    ({"secrets": ["env:NOWHERE"]}, "secrets[0]"),
    ({"secrets": ["env:SHORT"]}, "at least 16 bytes"),
    ({"secrets": [OLD]}, "must be env:NAME or file:PATH"),
    ({"secrets": ["file:/nowhere/at/all"]}, "cannot be read"),
    ({"secrets": []}, "at least one secret"),
    ({"tools": []}, "at least one tool"),
    ({"tolerance": 0}, "tolerance"),
    ({"tolerance": 86_400}, "tolerance"),
    ({"scheme": "standard", "tolerance": 60}, "300 seconds"),
    ({"scheme": "hmac"}, "hmac"),
    ({"name": "a b"}, "name"),
    ({"tenant": "policy:x"}, "tenant"),
    ({"tolerence": 3}, "tolerence"),
]


@pytest.mark.parametrize(("changes", "told"), BROKEN)
def test_a_setting_that_breaks_a_rule_is_told_without_the_secret(changes: dict[str, object], told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        endpoints_from([{**TABLE, **changes}], ENVIRONMENT)
    assert told in str(refused.value)
    assert "whsec_" not in str(refused.value)


def test_two_tenants_never_share_a_secret() -> None:
    """A delivery to one of them would be right for the other one too."""
    with pytest.raises(SettingsError, match="another tenant's endpoint has the same secret"):
        endpoints_from([TABLE, {**TABLE, "name": "psp-b", "tenant": "b"}], ENVIRONMENT)
