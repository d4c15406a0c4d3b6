"""Which partition a route lives in: the same for every writer, whatever client it uses.

The bytes that are hashed are the record key up to its second slash, without it: the percent-encoded tenant, a slash, the
percent-encoded route (`keys.route_prefix`). Encoded, since a tenant `a/b` with route `c` must not meet a tenant `a` with
route `b/c`.

The hash is murmur2 as Kafka's Java client has it, sign bit cleared, modulo the number of partitions, so anybody can
compute it with a stock client. It must never change: it is where every record of the past stands.
"""

from functools import cache, lru_cache
from struct import Struct
from typing import Final

from landed.wire.keys import route_prefix

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24
_32_BITS: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Murmur2 of *data* with Kafka's seed, as an unsigned 32-bit number."""
    size = len(data)
    hashed = _SEED ^ size
    whole = size & ~3
    for word in _words(whole // 4).unpack_from(data):
        word = word * _M & _32_BITS
        hashed = hashed * _M & _32_BITS ^ ((word ^ word >> _R) * _M & _32_BITS)
    if whole < size:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _M & _32_BITS
    hashed = (hashed ^ hashed >> 13) * _M & _32_BITS
    return hashed ^ hashed >> 15


@cache
def _words(count: int) -> Struct:
    """*count* numbers of 32 bits."""
    return Struct(f"<{count}I")


@lru_cache(maxsize=16_384)
def partition_for(tenant_id: str, route: str, partitions: int) -> int:
    """Partition of *route*, from 0 to *partitions* - 1.

    Raises:
        ValueError: *partitions* is below 1.
        EncodeError: an id holds a lone surrogate.
    """
    if partitions < 1:
        raise ValueError("partitions: must be at least 1")
    return (murmur2(route_prefix(tenant_id, route)) & 0x7FFFFFFF) % partitions
