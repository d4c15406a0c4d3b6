"""Which groups a comparison looks at: all, or a sample that the same seed draws again. Pure.

Drawn by the routing key, so that a group is looked at whole or not at all, and by a hash, so that the log and the tables are
asked the same question: the statements `verify_*.sql` answer it as `Sample.takes` does.
"""

import hashlib
import re
from functools import lru_cache
from typing import Final

import msgspec

from landed.adapters.postgres.escaping import escaped

FORM: Final = "must be a share such as 5% or 0.1%, or a number of operations such as 1000"
_SHARE: Final = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)%")
_NUMBER: Final = re.compile(r"[1-9]\d{0,11}")
_WHOLE: Final = 2**64


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asked for: one of the two."""

    share: float | None = None
    operations: int | None = None

    def of(self, operations: int) -> float:
        """The share of all groups, where there are *operations* in all."""
        if self.share is not None:
            return self.share
        return min(1.0, (self.operations or 0) / operations) if operations else 1.0


def asked(text: str) -> Asked:
    """What *text* asks for.

    Raises:
        ValueError: it is of neither form; says the rule.
    """
    if (found := _SHARE.fullmatch(text.strip())) is not None and 0 < float(found[1]) <= 100:
        return Asked(share=float(found[1]) / 100)
    if _NUMBER.fullmatch(text.strip()):
        return Asked(operations=int(text))
    raise ValueError(FORM)


class Sample(msgspec.Struct, frozen=True):
    """Groups whose hash lies below a bound."""

    seed: str
    below: bytes
    """Eight bytes, big-endian; what is compared with them is a SHA-256, so a share of 1 leaves out one group in 2^64."""

    def takes(self, tenant_id: str, route: str) -> bool:
        """Whether the group is looked at."""
        return _hash(self.seed, tenant_id, route) < self.below


def sample(share: float, seed: str) -> Sample:
    """A sample of that share (0 to 1) of all groups."""
    return Sample(seed, min(_WHOLE - 1, int(share * _WHOLE)).to_bytes(8, "big"))


@lru_cache(maxsize=16_384)
def _hash(seed: str, tenant_id: str, route: str) -> bytes:
    # As the tables hold the names: that is what the database hashes.
    return hashlib.sha256(f"{seed}/{escaped(tenant_id)}/{escaped(route)}".encode()).digest()
