"""Overviews of a cluster in which nothing happens, for tests of what is made of them."""

from __future__ import annotations

from typing import Any, Final

from entrepot.gateway.operations.overview.shapes import ClusterOverviewShown, ConfirmTimes, GatewayNow
from entrepot.gateway.operations.row.gathered import AnsweredShown

_TIME: Final = "2026-12-01T08:00:00.000Z"
QUIET: Final = ClusterOverviewShown(
    cluster="default",
    gateway="gw-1",
    version="1.0.0",
    time=_TIME,
    answered=AnsweredShown(1, 1, []),
    doors=[],
    confirm=ConfirmTimes(),
    furthest=None,
    lags=None,
    gauges={},
    gateways=[],
    brokers=[],
    controllers=[],
    name_servers=[],
    bridges=[],
    failing=[],
    counts={},
    alarms=[],
    disk=[],
    tier=None,
)


def gateway(name: str, **figures: Any) -> GatewayNow:
    """A gateway with some figures."""
    return GatewayNow(name, "1.0.0", _TIME, False, None, **figures)
