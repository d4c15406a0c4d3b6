"""The servers that are measured against: the embedded ones, their broker with both compilers of Java.

`landed up` starts its broker with the first compiler only, since that halves the time until it is up. Brokers that run for longer
have both, and cost about half once the second has seen some ten thousand operations; so they are measured after those.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from landed.adapters.embedded import Running, _kafka, embedded

WARM: int = 12_000
"""Operations until the broker's second compiler has done its work."""


@contextmanager
def servers(folder: str, *, both_compilers: bool) -> Iterator[Running]:
    options = _kafka.JVM
    if both_compilers:
        _kafka.JVM = tuple(option for option in options if option != _kafka.FIRST_COMPILER_ONLY)
    try:
        with embedded(folder, wipe=True) as running:
            yield running
    finally:
        _kafka.JVM = options
