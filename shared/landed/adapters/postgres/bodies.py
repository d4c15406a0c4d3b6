"""States of the core as bytes and back: MessagePack, defaults left out, fields in order. Equal states give equal bytes."""

from typing import Final

import msgspec

from landed.core.state import Operation, Route

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_OPERATION: Final = msgspec.msgpack.Decoder(Operation)
_ROUTE: Final = msgspec.msgpack.Decoder(Route)


def operation_body(operation: Operation) -> bytes:
    return _ENCODER.encode(operation)


def operation_of(body: bytes) -> Operation:
    """The operation whose body that is.

    Raises:
        msgspec.DecodeError: these are not the bytes of an operation of this release.
    """
    return _OPERATION.decode(body)


def route_body(route: Route) -> bytes:
    """What *route* knows beyond its operations."""
    return _ENCODER.encode(msgspec.structs.replace(route, operations={}) if route.operations else route)


def route_of_body(body: bytes) -> Route:
    """Route without its operations; raises as `operation_of` does."""
    return _ROUTE.decode(body)
