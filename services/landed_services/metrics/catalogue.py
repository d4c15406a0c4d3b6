"""Every metric that the services count by themselves: name, meaning, labels. Rows for each stand in docs/metrics.md.

Base units (seconds, records), names `landed_*`. One registry for each process that serves them, so that several services inside
one process, as in tests, do not mix. What is read from the tables when it is asked for stands in `gauges.py`.
"""

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from landed_services.metrics.health import Health
from landed_services.metrics.labels import OPERATION_LABELS, OperationLabels

_QUICK_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LONG_S: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0)
_RECORDS: Final = (1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0)
_PROBES: Final = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0)


class Metrics:
    """The metrics of one process, and its health.

    Args:
        providers: the provider behind each tool, for the labels.
    """

    def __init__(self, providers: Mapping[str, str] | None = None) -> None:
        self.health = Health()
        self.registry = CollectorRegistry()
        self.operation_labels = OperationLabels(providers)
        self._of_the_projector(self.registry)
        self._of_operations(self.registry)

    def _of_the_projector(self, registry: CollectorRegistry) -> None:
        def of_partition(name: str, text: str) -> Gauge:
            return Gauge(name, text, ("partition",), registry=registry)

        self.owned = of_partition("landed_projector_partition_owned", "1 for each partition that this projector owns.")
        self.stopped = of_partition(
            "landed_projector_partition_stopped",
            "1 for each owned partition that stands still until somebody repairs it, else 0.",
        )
        self.position = of_partition("landed_projector_position_offset", "Offset that is folded next.")
        self.lag = of_partition("landed_projector_lag_records", "Records between what is folded and the end of the log.")
        self.batch_records = Histogram(
            "landed_projector_batch_records", "Records of one transaction.", buckets=_RECORDS, registry=registry
        )
        self.batch_seconds = Histogram(
            "landed_projector_batch_seconds", "Time of one transaction, commit included.", buckets=_QUICK_S, registry=registry
        )
        self.verdict_seconds = Histogram(
            "landed_projector_verdict_seconds",
            "From the append of a claim, by the broker's clock, until its verdict is sent, by this machine's.",
            buckets=_QUICK_S,
            registry=registry,
        )
        self.outbox = Gauge(
            "landed_projector_outbox_decisions", "Decisions of this projector that have not come back.", registry=registry
        )
        self.outbox_oldest = Gauge(
            "landed_projector_outbox_oldest_seconds", "Age of the oldest of them; 0 without one.", registry=registry
        )
        self.refused_records = Counter(
            "landed_projector_refused_records", "Records kept aside, by reason.", ("reason",), registry=registry
        )
        self.claims = Counter(
            "landed_projector_claims_decided",
            "Decisions about claims; reason is that of a refusal.",
            ("verdict", "reason"),
            registry=registry,
        )
        self.pauses = Counter(
            "landed_projector_pauses", "Sessions that failed and began anew, by class of error.", ("error",), registry=registry
        )

    def _of_operations(self, registry: CollectorRegistry) -> None:
        self.classified = Counter(
            "landed_operations_classified",
            "Operations whose shown outcome became another; the share of `unknown` tells how often answers are lost.",
            ("outcome", *OPERATION_LABELS),
            registry=registry,
        )
        self.resolution_seconds = Histogram(
            "landed_operation_resolution_seconds",
            "From `unknown` until the doubt was over, by the log's clock.",
            OPERATION_LABELS,
            buckets=_LONG_S,
            registry=registry,
        )
        self.resolution_probes = Histogram(
            "landed_operation_resolution_probes",
            "Probes of an operation when its doubt was over.",
            OPERATION_LABELS,
            buckets=_PROBES,
            registry=registry,
        )
        self.probes = Counter("landed_probes", "Probes recorded, by result.", ("result", *OPERATION_LABELS), registry=registry)
        self.escalated = Counter(
            "landed_operations_escalated", "Operations handed to a person.", ("reason", *OPERATION_LABELS), registry=registry
        )
        self.conflicts = Counter(
            "landed_conflicts",
            "Evidence that contradicts: escalations for conflict, and marks of contradiction.",
            OPERATION_LABELS,
            registry=registry,
        )
        self.duplicates = Counter(
            "landed_duplicate_effects", "Second effects of one operation that were found.", OPERATION_LABELS, registry=registry
        )
        self.without_inverse = Counter(
            "landed_operations_without_inverse",
            "Operations that were prepared with no inverse registered.",
            OPERATION_LABELS,
            registry=registry,
        )
        self.compensations = Counter(
            "landed_compensations",
            "Inverses that came to their end: compensated, or failed and with a person.",
            ("result", *OPERATION_LABELS),
            registry=registry,
        )
        self.compensations_skipped = Counter(
            "landed_compensations_skipped",
            "Effects that automation could not undo, by the reason.",
            ("reason", *OPERATION_LABELS),
            registry=registry,
        )
        self.retries = Counter(
            "landed_retries",
            "Attempts after a first one that was not given back, of forward operations and of inverses.",
            ("kind", *OPERATION_LABELS),
            registry=registry,
        )
        self.breaker_openings = Counter(
            "landed_breaker_openings", "Ceilings that came to refuse claims.", ("layer", *OPERATION_LABELS), registry=registry
        )
        self.surge_refusals = Counter(
            "landed_surge_refusals", "Claims that found no room in a ceiling.", ("layer", *OPERATION_LABELS), registry=registry
        )
        self.disagreements = Counter(
            "landed_statement_disagreements",
            "Statements of agents that were not what the ledger knew at that moment.",
            OPERATION_LABELS,
            registry=registry,
        )
