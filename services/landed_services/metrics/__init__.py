"""What the services tell a Prometheus server, and how it asks them. Below the services: none of them is imported here."""

from landed_services.metrics.catalogue import Metrics
from landed_services.metrics.deliveries import Deliveries
from landed_services.metrics.gauges import ViewGauges
from landed_services.metrics.health import Health
from landed_services.metrics.labels import OPERATION_LABELS, OTHER, Capped, OperationLabels
from landed_services.metrics.operations import Applied, count_applied, layer_of
from landed_services.metrics.serving import MetricsServer, MetricsSettings, metrics_settings, served

__all__ = [
    "OPERATION_LABELS",
    "OTHER",
    "Applied",
    "Capped",
    "Deliveries",
    "Health",
    "Metrics",
    "MetricsServer",
    "MetricsSettings",
    "OperationLabels",
    "ViewGauges",
    "count_applied",
    "layer_of",
    "metrics_settings",
    "served",
]
