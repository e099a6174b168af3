"""The store in this process: `broker.Broker` is the ports itself, so nothing stands between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from domain.clock import Clock
from domain.ports import Store

if TYPE_CHECKING:
    from broker.settings import BrokerSettings


async def open_embedded(settings: BrokerSettings, clock: Clock) -> Store:
    """Open the data directory.  The engine is loaded here, so that others never load it."""
    from broker.broker import Broker

    return await Broker.open(settings, clock)
