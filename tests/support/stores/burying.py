"""Dead letters of all groups at once, as a round of the broker makes them."""

from __future__ import annotations

from entrepot.broker.consume.consumption import Consumption


def bury_exhausted(consumption: Consumption, now_ms: int) -> None:
    """Bury what is exhausted, of every group and topic."""
    for group, topic in consumption.unsettled():
        consumption.bury_exhausted(group, topic, now_ms)
