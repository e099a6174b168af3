"""A request as operations see it, without HTTP."""

from __future__ import annotations

from entrepot.domain.access.model import Origin, Principal
from entrepot.gateway.operations.row.asked import Asked


def asked(**names: str) -> Asked:
    """The request of a user `alice` with these names in its path."""
    return Asked(names, {}, Principal("alice", Origin.ANONYMOUS, "192.0.2.7"))
