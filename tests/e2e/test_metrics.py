"""A doubt as the metrics tell it: counted when it begins, overdue while nobody looks, its probes and its length at its end."""

import socket
import threading
import time
import urllib.request
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from landed import Unknown
from landed_services.metrics import Metrics, MetricsSettings, gauges, served
from landed_services.projector.loop import Projector
from landed_services.reconciler.main import run_reconciler

from .conftest import TENANT, Service, World
from .test_reconciling import Provider, found, registry_of

TOOL = {"tenant": TENANT, "tool": "pay.refund"}


def total(port: int, name: str, **labels: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = [one for family in families for one in family.samples if one.name == name]
    return sum(one.value for one in samples if labels.items() <= one.labels.items())


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.05)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_a_doubt_is_told_from_its_beginning_to_its_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauges, "STUCK_AFTER_MS", 200)
    monkeypatch.setattr(gauges, "KEPT_S", 0.0)
    provider = Provider()
    registry, refund = registry_of(provider, found(provider))
    metrics = Metrics()
    with served(MetricsSettings(port=0), metrics, world.view) as door:
        projector = Service(Projector(world.log, world.view, metrics=metrics).run)
        try:
            assert isinstance(world.ledger().perform(refund, operation_id="op-1", order="o-1", operation="op-1"), Unknown)
            until(lambda: total(door.port, "landed_operations_stuck", **TOOL) == 1, "nobody looks at it")
            assert total(door.port, "landed_operations_classified_total", outcome="unknown", **TOOL) == 1
            assert total(door.port, "landed_operations_in_doubt", **TOOL) == 1
            assert total(door.port, "landed_operation_oldest_unresolved_seconds", **TOOL) > 0.2
            assert total(door.port, "landed_operation_resolution_seconds_count") == 0
            port = free_port()

            def reconcile(stop: threading.Event) -> None:
                run_reconciler(world.log, world.view, registry, stop, door=MetricsSettings(port=port))

            reconciler = Service(reconcile)
            try:
                world.until("op-1", "confirmed")
                until(lambda: total(door.port, "landed_operation_resolution_seconds_count", **TOOL) == 1, "its end is told")
                assert total(port, "landed_operations_in_doubt") == total(port, "landed_operations_stuck") == 0
                assert total(port, "landed_view_up") == 1
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                    assert answer.status == 200
            finally:
                reconciler.end()
        finally:
            projector.end()
        operation = world.operation("op-1")
        assert total(door.port, "landed_probes_total", **TOOL) == provider.looks == operation.checks
        assert total(door.port, "landed_operation_resolution_probes_sum", **TOOL) == operation.checks
        assert 0 < total(door.port, "landed_operation_resolution_seconds_sum", **TOOL) < 60
        assert total(door.port, "landed_operations_classified_total", outcome="succeeded", **TOOL) == 1
        assert provider.effects == ["op-1"]


def test_a_view_that_cannot_be_read_is_told_as_such_and_the_rest_of_the_metrics_is_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gauges, "KEPT_S", 0.0)
    metrics = Metrics()
    with served(MetricsSettings(port=0), metrics, world.view) as door:
        assert total(door.port, "landed_view_up") == 1
        monkeypatch.setattr(gauges, "statement", lambda _: "SELECT nonsense")
        assert total(door.port, "landed_view_up") == 0
        metrics.outbox.set(3)
        assert total(door.port, "landed_projector_outbox_decisions") == 3
