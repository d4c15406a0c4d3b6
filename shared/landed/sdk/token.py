"""The token of a granted call: what its holder needs to make the call, to renew its lease, and to record what came of it."""

import msgspec

from landed.core.contract import Contract
from landed.core.inverse import Gone


class Execute(msgspec.Struct, frozen=True, kw_only=True):
    """Granted: one call may be made now, by the process that asked.

    Held in memory only: a restarted process begins anew, and is told what the ledger knows.
    """

    tenant_id: str
    route: str
    operation_id: str
    group_id: str | None
    claim_id: str
    attempt: int
    """The fencing token."""
    request_hash: str
    contract: Contract
    lease_ms: int
    granted_at_ms: int
    """Append time of the grant, on the log's clock."""
    sent_s: float
    """When the claim was sent, on the monotonic clock of this process: the lease is counted from here."""
    version: int
    """Accepted events of the operation that the grant had seen."""
    own_try: bool = False
    """An earlier attempt of the operation was made and not answered for good."""
    gone: Gone | None = None
    """Of an inverse: answers that say that the effect is gone already."""
    observe: str | None = None
    """Why the call would have been refused, where the tenant only observes."""

    @property
    def identity(self) -> dict[str, str]:
        """Whose call it is, as `ownership` of the contract may name it."""
        own = {"tenant_id": self.tenant_id, "operation_id": self.operation_id}
        return own if self.group_id is None else {**own, "group_id": self.group_id}
