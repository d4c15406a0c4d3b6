"""The HTTP door of a service: `/metrics`, `/livez`, `/readyz`. Off until a port is set; plain text, no content of operations."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any, Final, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import msgspec
from prometheus_client import CollectorRegistry, make_wsgi_app

from landed.adapters.postgres import PostgresSettings
from landed.core.contract import Problem
from landed.sdk.errors import SettingsError
from landed_services.metrics.catalogue import Metrics
from landed_services.metrics.gauges import ViewGauges
from landed_services.metrics.health import Health

_LOG: Final = logging.getLogger("landed.metrics")


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True):
    port: int
    """0: any free one, told in the log."""
    host: str = "127.0.0.1"
    providers: dict[str, str] = {}
    """The provider behind each tool, for the labels."""


def metrics_settings(env: Mapping[str, str]) -> MetricsSettings | None:
    """`LANDED_METRICS_PORT` (usually 9464), `LANDED_METRICS_HOST` (127.0.0.1) and `LANDED_METRICS_PROVIDERS`
    (`provider=tool,tool;provider=tool`); None without a port: no door is opened.

    Raises:
        SettingsError: the port is none, or the providers are not of that form.
    """
    text = env.get("LANDED_METRICS_PORT", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= 65_535):
        raise SettingsError("settings", [Problem("LANDED_METRICS_PORT", "must be a port, 0 to 65535 (0: any free one)")])
    return MetricsSettings(
        port=int(text),
        host=env.get("LANDED_METRICS_HOST") or "127.0.0.1",
        providers=_providers(env.get("LANDED_METRICS_PROVIDERS", "")),
    )


def _providers(text: str) -> dict[str, str]:
    found = {}
    for part in filter(None, (one.strip() for one in text.split(";"))):
        provider, equals, tools = part.partition("=")
        named = [one.strip() for one in tools.split(",") if one.strip()]
        if not equals or not provider.strip() or not named:
            rule = "must be provider=tool,tool with semicolons between providers"
            raise SettingsError("settings", [Problem("LANDED_METRICS_PROVIDERS", rule)])
        found.update(dict.fromkeys(named, provider.strip()))
    return found


class MetricsServer:
    """Open from `__enter__` to `__exit__`; a service without settings serves nothing."""

    def __init__(self, settings: MetricsSettings | None, registry: CollectorRegistry, health: Health) -> None:
        self._settings = settings
        self._app = _door(registry, health)
        self._server: WSGIServer | None = None

    def __enter__(self) -> Self:
        """Raises: SettingsError when the address cannot be listened on."""
        if self._settings is None:
            return self
        host, port = self._settings.host, self._settings.port
        try:
            self._server = make_server(host, port, self._app, server_class=_Server, handler_class=_Silent)
        except OSError as error:
            rule = f"cannot listen on {host}:{port}: {error.strerror}"
            raise SettingsError("settings", [Problem("LANDED_METRICS_PORT", rule)]) from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="landed-metrics", daemon=True)
        self._thread.start()
        _LOG.info("metrics on %s:%d", host, self.port, extra={"action": "metrics_served", "host": host, "port": self.port})
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    @property
    def port(self) -> int:
        """Where it listens; 0 when it does not."""
        return 0 if self._server is None else self._server.server_port


@contextmanager
def served(settings: MetricsSettings | None, metrics: Metrics, database: PostgresSettings) -> Iterator[MetricsServer]:
    """*metrics* and the gauges of *database* behind a door, for the time of a service."""
    gauges = ViewGauges(database, metrics.operation_labels)
    metrics.registry.register(gauges)
    try:
        with MetricsServer(settings, metrics.registry, metrics.health) as server:
            yield server
    finally:
        metrics.registry.unregister(gauges)
        gauges.close()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Silent(WSGIRequestHandler):
    timeout = 10

    def log_message(self, *_: object) -> None:
        """Nobody wants a line a scrape."""


def _door(registry: CollectorRegistry, health: Health) -> Any:
    metrics = make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO")
        if path == "/metrics":
            found: Iterable[bytes] = metrics(environ, start_response)
            return found
        looks = {"/livez": health.live_problem, "/readyz": health.ready_problem}
        look = looks.get(path or "")
        problem = "there are /metrics, /livez and /readyz" if look is None else look()
        status = "404 Not Found" if look is None else "503 Service Unavailable" if problem else "200 OK"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{problem or 'ok'}\n".encode()]

    return answer
