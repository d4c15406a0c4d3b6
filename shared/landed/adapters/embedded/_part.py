"""The two servers that are embedded."""

from __future__ import annotations

import enum


class Part(enum.StrEnum):
    """Which server is meant."""

    KAFKA = "kafka"
    POSTGRES = "postgres"


BOTH = frozenset(Part)
