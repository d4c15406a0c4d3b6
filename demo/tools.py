"""The agent's tool of the demo: a refund at a provider that honours no idempotency key, and how the ledger looks it up."""

import contextlib
import os
from collections.abc import Iterator

from demo import provider
from landed import (
    Absent,
    Ambiguous,
    Effect,
    Found,
    Listed,
    ListRequest,
    NotSent,
    OperationKey,
    Probe,
    ProbeRequest,
    Stage,
    ToolError,
    ToolRegistry,
    current_operation,
)
from landed.core.vocabulary import Stakes
from landed.sdk.probes import ProbeAnswer

PROVIDER_URL = "DEMO_PROVIDER_URL"
"""Setting of the demo: where the provider is reached, through the fault proxy."""
DIE_AFTER_EFFECT = "DEMO_DIE_AFTER_EFFECT"
"""Setting of the demo: the process kills itself once the provider has answered, before anybody is told."""

registry = ToolRegistry()


def client() -> provider.Client:
    return provider.Client(os.environ[PROVIDER_URL], timeout_s=5.0)


@registry.effect(
    tool="payments.refund",
    effect=Effect(kind="refund.create", resource="refund"),
    stakes=Stakes.MONEY,
    business_key="refund:{charge}",
    # The provider stores the operation id and lists it, but a second call under it makes a second refund.
    operation_key=OperationKey(reference="metadata.operation_id", honoured=False),
    stored_args=("charge", "amount"),
    reference_field="id",
    reference_pattern=r"re_[A-Za-z0-9]+",
    receipt_fields=("id", "charge", "amount", "status"),
    no_effect_errors=("resource_missing", "invalid_request_error"),
    outcome_probe=Probe(tool="payments.find_refund"),
    first_check_after=0.5,
    lease=3.0,
    longest_processing=5.0,
    safe_window=5.0,
)
def refund(charge: str, amount: int) -> provider.Refund:
    operation = current_operation()
    try:
        made = client().create_refund(charge, amount, {"operation_id": operation.id})
    except provider.NotSent as error:
        raise NotSent("the provider was not reached") from error
    except provider.HttpError as error:
        raise ToolError(error.code or str(error.status)) from error
    if os.environ.get(DIE_AFTER_EFFECT):
        os.kill(os.getpid(), 9)
    return made


@refund.probe
def find_refund(request: ProbeRequest) -> ProbeAnswer:
    """Lists the charge's refunds and takes the one that carries our operation id; the list is the provider's own record."""
    charge = str(request.stored_args["charge"])
    found = client().list_refunds(charge=charge, metadata={"operation_id": request.operation_id})
    if not found:
        return Absent()
    if len(found) > 1:
        return Ambiguous(f"{len(found)} refunds carry this operation id")
    one = found[0]
    receipt = {"id": one.id, "charge": charge, "amount": one.amount, "status": one.status}
    return Found(reference=one.id, receipt=receipt, matched_on=("operation_id",))


@refund.list_probe
def list_refunds(request: ListRequest) -> list[Listed]:
    """All refunds of the span: what `landed sweep` compares with the ledger."""
    return [
        Listed(reference=one.id, operation_id=one.metadata.get("operation_id"), provider_time_ms=one.created * 1000)
        for one in client().list_refunds()
    ]


@refund.stage
@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    """A provider of its own for `landed drill`, each time with a new charge to refund."""
    with provider.Provider() as made:

        def use(url: str) -> None:
            os.environ[PROVIDER_URL] = url

        def arguments() -> dict[str, object]:
            return {"charge": provider.Client(made.url).create_charge(1000).id, "amount": 500}

        yield Stage(url=made.url, use=use, arguments=arguments)
