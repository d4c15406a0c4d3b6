"""Free ports on 127.0.0.1."""

from __future__ import annotations

import socket
from collections.abc import Iterable

ADDRESS = "127.0.0.1"


def choose(count: int, wanted: Iterable[int | None] = ()) -> tuple[int, ...]:
    """*count* different ports that are free now: those *wanted* where they are, for the rest what the system gives.

    Free now is no promise: whoever starts a server must be ready to find its port taken and choose again.
    """
    sockets: list[socket.socket] = []
    try:
        remembered = [*wanted, *([None] * count)][:count]
        # The wanted ones first, lest the system hands one of them out for another.
        held = {port: bound for port in remembered if port and (bound := _bind(port)) is not None}
        sockets.extend(held.values())
        chosen: list[int] = []
        for port in remembered:
            if port not in held or port in chosen:
                fresh = _bind(0)
                assert fresh is not None
                sockets.append(fresh)
                port = fresh.getsockname()[1]
            assert port is not None
            chosen.append(port)
        return tuple(chosen)
    finally:
        for bound in sockets:
            bound.close()


def _bind(port: int) -> socket.socket | None:
    candidate = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # As the servers do: connections of an earlier run that still linger do not count, a listener does.
    candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        candidate.bind((ADDRESS, port))
        candidate.listen(1)
    except OSError:
        candidate.close()
        return None
    return candidate
