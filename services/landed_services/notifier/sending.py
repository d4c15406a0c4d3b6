"""One try to tell a receiver: signed, bounded in time, without following anything. Of the answer only its status is read."""

import contextlib
import http.client
import socket
import ssl
import threading
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

import msgspec
from standardwebhooks import Webhook

from landed_services.notifier.receivers import Receiver

GONE: Final = 410
"""The receiver wants nothing more of this."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back."""

    result: str
    """The status, or the class of what went wrong; never text of the receiver."""
    delivered: bool = False
    gone: bool = False


def send(receiver: Receiver, *, webhook_id: str, payload: str, at: datetime, limit_s: float) -> Answer:
    """Sends *payload* once; takes *limit_s* seconds at the most, however slowly the receiver answers."""
    parts = urlsplit(receiver.url)
    body = payload.encode()
    headers = {
        "content-type": "application/json",
        "user-agent": "landed",
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(receiver.secret.value.decode()).sign(webhook_id, at, payload),
        "connection": "close",
    }
    connection = _connection(parts.scheme, parts.hostname or "", parts.port, limit_s)
    # Each read has the time limit of the socket anew; the whole has one of its own.
    is_over = threading.Event()
    over = threading.Timer(limit_s, _cut, (connection, is_over))
    over.daemon = True
    over.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", target, body=body, headers=headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Answer(result=_class_of(error, cut=is_over.is_set()))
    finally:
        over.cancel()
        connection.close()
    return Answer(result=str(status), delivered=200 <= status < 300, gone=status == GONE)


def _connection(scheme: str, host: str, port: int | None, limit_s: float) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=limit_s, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, port, timeout=limit_s)


def _cut(connection: http.client.HTTPConnection, is_over: threading.Event) -> None:
    is_over.set()
    open_socket = connection.sock
    if open_socket is not None:
        with contextlib.suppress(OSError):
            open_socket.shutdown(socket.SHUT_RDWR)


def _class_of(error: Exception, *, cut: bool) -> str:
    if cut or isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, ssl.SSLError):
        return "tls"
    if isinstance(error, socket.gaierror):
        return "name_not_found"
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    return "connection_lost" if isinstance(error, OSError | http.client.RemoteDisconnected) else "malformed_answer"
