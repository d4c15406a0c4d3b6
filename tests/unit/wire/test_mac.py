"""Who wrote a record."""

import hashlib
import hmac
import pickle

import pytest

from landed.wire.errors import KeyRingError
from landed.wire.mac import UNSIGNED, KeyRing
from landed.wire.reasons import Reason

SECRET, OTHER = b"first secret of sixteen and more", b"other secret of sixteen and more"
RING = KeyRing({"w1": SECRET, "w2": OTHER}, signing="w1", mandatory=True)


def signed(key: bytes, value: bytes, ring: KeyRing = RING) -> bytes:
    result = ring.sign(key, value)
    assert result is not None
    return result[1]


@pytest.mark.parametrize("secret", [SECRET, bytes(range(64)), bytes(range(65)), bytes(200)], ids=len)
def test_the_mac_is_hmac_sha256_over_label_key_and_value_with_their_lengths(secret: bytes) -> None:
    data = b"landed.mac.v1" + (3).to_bytes(8, "big") + b"key" + (5).to_bytes(8, "big") + b"value"
    ring = KeyRing({"w1": secret}, signing="w1")
    assert ring.sign(b"key", b"value") == ("w1", hmac.new(secret, data, hashlib.sha256).hexdigest().encode())


def test_a_right_mac_is_taken() -> None:
    assert RING.verify(b"k", b"v", "w1", signed(b"k", b"v")) is None


def test_no_byte_can_move_from_the_key_to_the_value() -> None:
    assert signed(b"ab", b"c") != signed(b"a", b"bc")
    assert RING.verify(b"a", b"bc", "w1", signed(b"ab", b"c")) is Reason.MAC_WRONG


@pytest.mark.parametrize("mac", [b"", b"00", b"0" * 64, b"\xff" * 64, signed(b"k", b"v").upper(), signed(b"k", b"v") + b"0"])
def test_any_other_mac_is_wrong(mac: bytes) -> None:
    assert RING.verify(b"k", b"v", "w1", mac) is Reason.MAC_WRONG


def test_the_mac_of_another_key_is_wrong() -> None:
    assert RING.verify(b"k", b"v", "w2", signed(b"k", b"v")) is Reason.MAC_WRONG


def test_a_key_that_no_longer_signs_still_verifies() -> None:
    turned = KeyRing({"w1": SECRET, "w2": OTHER}, signing="w2", mandatory=True)
    assert turned.verify(b"k", b"v", "w1", signed(b"k", b"v")) is None


def test_where_macs_are_mandatory_none_may_be_missing_or_under_an_unknown_key() -> None:
    assert RING.verify(b"k", b"v", None, None) is Reason.MAC_MISSING
    assert RING.verify(b"k", b"v", "w3", signed(b"k", b"v")) is Reason.MAC_UNKNOWN_KEY


def test_where_they_are_not_a_wrong_one_is_still_refused() -> None:
    ring = KeyRing({"w1": SECRET})
    assert ring.verify(b"k", b"v", None, None) is None
    assert ring.verify(b"k", b"v", "w3", b"0" * 64) is None
    assert ring.verify(b"k", b"v", "w1", b"0" * 64) is Reason.MAC_WRONG


def test_without_a_signing_key_nothing_is_signed() -> None:
    assert UNSIGNED.sign(b"k", b"v") is None
    assert KeyRing({"w1": SECRET}).sign(b"k", b"v") is None


def test_a_process_that_must_sign_and_cannot_says_so() -> None:
    with pytest.raises(KeyRingError, match="signing: MACs are mandatory"):
        KeyRing({"w1": SECRET}, mandatory=True).sign(b"k", b"v")


def test_nothing_that_is_printed_shows_a_secret() -> None:
    for shown in (repr(RING), str(RING), f"{RING}"):
        assert shown == "KeyRing(keys=['w1', 'w2'], signing='w1', mandatory=True)"
    with pytest.raises(KeyRingError) as refused:
        KeyRing({"w1": b"short secret"})
    assert str(refused.value) == "key w1: its secret must be at least 16 bytes"


@pytest.mark.parametrize("key_id", ["", "a b", "ü", "a" * 65, "a\n"])
def test_a_key_id_has_a_plain_form(key_id: str) -> None:
    with pytest.raises(KeyRingError, match=r"key id .*: must be 1-64 letters"):
        KeyRing({key_id: SECRET})


def test_the_signing_key_is_one_of_the_ring() -> None:
    with pytest.raises(KeyRingError, match="signing key 'w9': is not in the ring"):
        KeyRing({"w1": SECRET}, signing="w9")


def test_mandatory_macs_need_a_key() -> None:
    with pytest.raises(KeyRingError, match="mandatory: needs at least one key"):
        KeyRing(mandatory=True)


def test_the_ring_keeps_its_keys_when_the_callers_mapping_changes() -> None:
    keys = {"w1": SECRET}
    ring = KeyRing(keys, signing="w1")
    keys.clear()
    assert ring.verify(b"k", b"v", "w1", signed(b"k", b"v", ring)) is None


def test_a_ring_can_be_handed_to_another_process() -> None:
    there = pickle.loads(pickle.dumps(RING))
    assert there.sign(b"k", b"v") == RING.sign(b"k", b"v")
    assert (there.signing, there.mandatory, repr(there)) == (RING.signing, RING.mandatory, repr(RING))
    assert there.verify(b"k", b"v", "w2", signed(b"k", b"v")) is Reason.MAC_WRONG
