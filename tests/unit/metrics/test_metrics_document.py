"""docs/metrics.md and the metrics are the same set: name, kind and labels."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from landed.adapters.postgres import PostgresSettings
from landed_services.metrics import Deliveries, Metrics, ViewGauges
from landed_services.metrics.gauges import _families

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(?P<name>landed_\w+)` \| (?P<kind>\w+) \| (?P<labels>[^|]*) \| (?P<meaning>[^|]+) \|$", re.MULTILINE)


def described() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Kind and labels of every metric that a service may tell."""
    metrics = Metrics()
    found = {}
    for collector, names in metrics.registry._collector_to_names.items():
        (family,) = collector.describe()
        name = family.name + ("_total" if family.type == "counter" else "")
        assert name in names or family.name in names
        found[name] = (family.type, tuple(collector._labelnames))  # type: ignore[attr-defined]
    for name, family in [*_families().items(), *((f"{one.name}_total", one) for one in Deliveries(dict).describe())]:
        found[name] = (family.type, tuple(family._labelnames))
    return found


def documented() -> dict[str, tuple[str, tuple[str, ...]]]:
    rows = ROW.finditer(DOCUMENT.read_text("utf-8"))
    expand = "tenant, tool, provider, workflow_type, policy_version"
    found = {}
    for row in rows:
        labels = row["labels"].replace("operation", expand).strip().split(", ")
        found[row["name"]] = (row["kind"], tuple(filter(None, labels)))
    return found


def test_every_metric_has_a_row_and_every_row_a_metric() -> None:
    assert documented() == described()


def test_the_gauges_of_the_tables_are_described_without_a_database() -> None:
    nowhere = PostgresSettings(url="postgresql://nobody@127.0.0.1:1/nothing")
    assert {one.name for one in ViewGauges(nowhere, Metrics().operation_labels).describe()} == set(_families())


def test_deliveries_are_told_as_the_intake_counted_them() -> None:
    counted = {("acme-stripe", "matched"): 3, ("unknown", "unknown_endpoint"): 1}
    registry = CollectorRegistry()
    registry.register(Deliveries(lambda: counted))
    counted["acme-stripe", "matched"] += 1
    labels = {"endpoint": "acme-stripe", "became": "matched"}
    assert registry.get_sample_value("landed_webhook_deliveries_total", labels) == 4
    assert registry.get_sample_value("landed_webhook_deliveries_total", labels | {"became": "duplicate"}) is None


def test_every_metric_is_ours_and_in_base_units() -> None:
    for name in described():
        assert re.fullmatch(r"landed_[a-z_]+", name)
        assert not re.search(r"_(ms|milliseconds|minutes|kb|percent)(_|$)", name)
