"""Intake of webhooks: from a provider's delivery to evidence on the log.

A library, not a service: the gateway gives it deliveries, the reconciler has it match again what came too early. So it lies
beside the services and imports none of them. It needs the view, to find operations: that is why it is not part of the SDK, whose
processes have no database.
"""

from landed_services.intake.endpoints import Endpoint, Scheme, endpoints_from
from landed_services.intake.matching import NewsMatcher
from landed_services.intake.taking import Accepted, Intake, Refused, Why

__all__ = ["Accepted", "Endpoint", "Intake", "NewsMatcher", "Refused", "Scheme", "Why", "endpoints_from"]
