"""The door of a service: metrics, life and readiness, on this machine alone unless it is told otherwise."""

import urllib.error
import urllib.request

import pytest

from landed.sdk.errors import SettingsError
from landed_services.metrics import Health, Metrics, MetricsServer, MetricsSettings, metrics_settings


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_nothing_is_served_until_a_port_is_set() -> None:
    assert metrics_settings({}) is None
    with MetricsServer(None, Metrics().registry, Health()) as server:
        assert server.port == 0


def test_it_is_served_on_this_machine_alone_unless_a_host_is_set() -> None:
    assert metrics_settings({"LANDED_METRICS_PORT": "9464"}) == MetricsSettings(port=9464, host="127.0.0.1")
    told = metrics_settings({"LANDED_METRICS_PORT": "0", "LANDED_METRICS_HOST": "::1"})
    assert told == MetricsSettings(port=0, host="::1")


def test_providers_are_named_by_their_tools() -> None:
    told = metrics_settings({"LANDED_METRICS_PORT": "0", "LANDED_METRICS_PROVIDERS": "stripe=refund, charge; ses=mail"})
    assert told is not None
    assert told.providers == {"refund": "stripe", "charge": "stripe", "mail": "ses"}
    for broken in ("stripe", "=refund", "stripe=", "stripe=,"):
        with pytest.raises(SettingsError, match="LANDED_METRICS_PROVIDERS"):
            metrics_settings({"LANDED_METRICS_PORT": "0", "LANDED_METRICS_PROVIDERS": broken})


@pytest.mark.parametrize("port", ["x", "-1", "65536", "٣"])
def test_a_port_that_is_none_is_named(port: str) -> None:
    with pytest.raises(SettingsError, match="LANDED_METRICS_PORT"):
        metrics_settings({"LANDED_METRICS_PORT": port})


def test_a_port_that_is_taken_is_named() -> None:
    metrics = Metrics()
    with (
        MetricsServer(MetricsSettings(port=0), metrics.registry, metrics.health) as first,
        pytest.raises(SettingsError, match=rf"cannot listen on 127.0.0.1:{first.port}"),
        MetricsServer(MetricsSettings(port=first.port), metrics.registry, metrics.health),
    ):
        pass


def test_a_service_lives_while_its_loop_turns_and_is_ready_when_it_says_so() -> None:
    metrics = Metrics()
    metrics.health = Health(beats_within_s=60.0)
    with MetricsServer(MetricsSettings(port=0), metrics.registry, metrics.health) as server:
        metrics.health.beat()
        assert get(server.port, "/livez") == (200, "ok\n")
        assert get(server.port, "/readyz") == (503, "it has not begun\n")
        metrics.health.ready()
        assert get(server.port, "/readyz") == (200, "ok\n")
        metrics.health.not_ready("12000 records behind")
        assert get(server.port, "/readyz") == (503, "12000 records behind\n")
        metrics.health.ready()

        metrics.health._beat -= 61.0
        assert get(server.port, "/livez")[0] == get(server.port, "/readyz")[0] == 503
        assert get(server.port, "/")[0] == 404


def test_metrics_are_in_the_format_of_prometheus() -> None:
    metrics = Metrics()
    metrics.refused_records.labels("mac_wrong").inc(3)
    with MetricsServer(MetricsSettings(port=0), metrics.registry, metrics.health) as server:
        status, text = get(server.port, "/metrics")
    assert status == 200
    assert 'landed_projector_refused_records_total{reason="mac_wrong"} 3.0' in text.splitlines()
