"""Where a server's observable is another than the scripts state, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Difference:
    """What a server (entrepot or rabbitmq) shows instead, for these features, to these clients (none: to all)."""

    server: str
    features: tuple[str, ...]
    observed: Any
    reason: str
    clients: tuple[str, ...] = ()


DIFFERENCES: Final[tuple[Difference, ...]] = ()


def observable(server: str, client: str, feature: str, stated: Any) -> Any:
    """What is expected of a server, as one process or as several."""
    ours = "entrepot" if server in ("serve", "separate") else server
    for each in DIFFERENCES:
        if each.server == ours and feature in each.features and (not each.clients or client in each.clients):
            return each.observed
    return stated
