"""Labels of metrics about operations. Whatever writers put into events, the number of series stays bounded."""

import threading
from collections.abc import Mapping
from typing import Final

OTHER: Final = "other"
TENANTS_MAX: Final = 50
NAMES_MAX: Final = 200
"""Values of every other label; a team has fewer, a broken writer may not."""

OPERATION_LABELS: Final = ("tenant", "tool", "provider", "workflow_type", "policy_version")


class Capped:
    """The first *limit* values that come get a label of their own, all others share `other`; safe under threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, value: str | None) -> str:
        """Label for *value*; empty for none."""
        if not value or value in self._known:
            return value or ""
        with self._lock:
            if len(self._known) < self._limit:
                # A value that is called `other` must not hide behind the others: it is one of them.
                self._known.add(value)
            return value if value in self._known else OTHER


class OperationLabels:
    """Values of `OPERATION_LABELS`, in that order, for one process.

    Args:
        providers: the provider behind each tool. A tool that none was named for is a provider of its own, as for the reconciler.
    """

    def __init__(self, providers: Mapping[str, str] | None = None) -> None:
        self._provider_of = providers or {}
        self._tenant = Capped(TENANTS_MAX)
        self._tool, self._provider = Capped(NAMES_MAX), Capped(NAMES_MAX)
        self._workflow_type, self._policy_version = Capped(NAMES_MAX), Capped(NAMES_MAX)

    def __call__(
        self,
        *,
        tenant_id: str | None,
        tool: str | None = None,
        workflow_type: str | None = None,
        policy_version: str | None = None,
    ) -> tuple[str, ...]:
        return (
            self._tenant(tenant_id),
            self._tool(tool),
            self._provider(self._provider_of.get(tool or "", tool)),
            self._workflow_type(workflow_type),
            self._policy_version(policy_version),
        )
