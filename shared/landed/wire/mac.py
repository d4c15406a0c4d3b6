"""Who wrote a record: HMAC-SHA256 under a key of the writer, checked before anything is decoded.

What is signed is a label, then record key and value, each after its length as 8 bytes, big-endian: no bytes can move from
one to the other. Headers are not signed: what they say of the value, the value says itself, and `read` compares.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from landed.wire.errors import KeyRingError
from landed.wire.reasons import Reason

SECRET_BYTES_MIN: Final = 16
_LABEL: Final = b"landed.mac.v1"
_BLOCK_BYTES: Final = 64
"""Of SHA-256."""
_KEY_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


class KeyRing:
    """The secrets that records are signed and verified with, by key id. Shows none of them.

    Args:
        keys: secret of each key id, at least 16 bytes. Keys that no longer sign stay in as long as their records do.
        signing: key id that this process signs with; without one its records carry no MAC.
        mandatory: records without a MAC are refused. Until every writer signs, it is False: then a record without a MAC,
            or under a key id that is not in the ring, is taken; a wrong MAC is refused in any case.

    Raises:
        KeyRingError: names the key id and the rule.
    """

    __slots__ = ("_keyed", "_keys", "mandatory", "signing")

    def __init__(self, keys: Mapping[str, bytes] | None = None, *, signing: str | None = None, mandatory: bool = False) -> None:
        self._keys: Final = dict(keys or {})
        # Keyed once, copied for each record: half the work of keying anew, and the interpreter's lock is not given away in
        # between, which costs a waiting caller far more than the digest itself.
        self._keyed: Final = {key_id: _keyed(secret) for key_id, secret in self._keys.items()}
        self.signing: Final = signing
        self.mandatory: Final = mandatory
        for key_id, secret in self._keys.items():
            if not _KEY_ID.fullmatch(key_id):
                raise KeyRingError(f"key id {key_id!r}: must be 1-64 letters, digits, dots, hyphens or underscores")
            if len(secret) < SECRET_BYTES_MIN:
                raise KeyRingError(f"key {key_id}: its secret must be at least {SECRET_BYTES_MIN} bytes")
        if signing is not None and signing not in self._keys:
            raise KeyRingError(f"signing key {signing!r}: is not in the ring")
        if mandatory and not self._keys:
            raise KeyRingError("mandatory: needs at least one key, else every record would be refused")

    def __repr__(self) -> str:
        return f"KeyRing(keys={sorted(self._keys)}, signing={self.signing!r}, mandatory={self.mandatory})"

    def __reduce__(self) -> tuple[Any, ...]:
        # For another process of the same owner; a keyed hash cannot be handed over.
        return partial(KeyRing, signing=self.signing, mandatory=self.mandatory), (self._keys,)

    def holds(self, key_id: str) -> bool:
        """Whether what is signed under *key_id* can be verified here."""
        return key_id in self._keys

    def sign(self, key: bytes, value: bytes) -> tuple[str, bytes] | None:
        """Key id and MAC (64 lower-case hexadecimal digits) of a record; None without a signing key.

        Raises:
            KeyRingError: MACs are mandatory and there is no key to sign with.
        """
        if self.signing is None:
            if self.mandatory:
                raise KeyRingError("signing: MACs are mandatory and no key to sign with is given")
            return None
        return self.signing, _mac(self._keyed[self.signing], key, value)

    def verify(self, key: bytes, value: bytes, key_id: str | None, mac: bytes | None) -> Reason | None:
        """None when the MAC of a record is right or not required, else why it is refused. Takes constant time."""
        if key_id is None or mac is None:
            return Reason.MAC_MISSING if self.mandatory else None
        keyed = self._keyed.get(key_id)
        if keyed is None:
            return Reason.MAC_UNKNOWN_KEY if self.mandatory else None
        return None if hmac.compare_digest(_mac(keyed, key, value), mac) else Reason.MAC_WRONG


UNSIGNED: Final = KeyRing()
"""No keys: nothing is signed, nothing is required."""


class _Keyed(NamedTuple):
    """The two hashes of HMAC (RFC 2104) under a key, with the label in the inner one: to be copied for each record."""

    inner: Any
    outer: Any


def _keyed(secret: bytes) -> _Keyed:
    block = (hashlib.sha256(secret).digest() if len(secret) > _BLOCK_BYTES else secret).ljust(_BLOCK_BYTES, b"\0")
    return _Keyed(
        inner=hashlib.sha256(bytes(byte ^ 0x36 for byte in block) + _LABEL),
        outer=hashlib.sha256(bytes(byte ^ 0x5C for byte in block)),
    )


def _mac(keyed: _Keyed, key: bytes, value: bytes) -> bytes:
    # Half the work of copying an `hmac` object, which the library looks up anew for each.
    inner, outer = keyed.inner.copy(), keyed.outer.copy()
    inner.update(b"".join((len(key).to_bytes(8, "big"), key, len(value).to_bytes(8, "big"), value)))
    outer.update(inner.digest())
    mac: str = outer.hexdigest()
    return mac.encode("ascii")
