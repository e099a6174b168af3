"""RemoteCondition: the joint condition of all brokers."""

from __future__ import annotations

from typing import Final, TypeVar

from entrepot.domain.errors import EntrepotError
from entrepot.domain.measurement import Histogram
from entrepot.domain.pin import Pin
from entrepot.domain.tiering import TierStatus
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.row import Ask
from entrepot.store_client.remote.asking import ask_all
from entrepot.store_client.remote.broker_client import BrokerClient
from entrepot.store_client.remote.cluster import Cluster

T = TypeVar("T")
OF_THE_WORST: Final = frozenset(("disk_state", "clock_error_seconds", "confirm_age_seconds"))
"""Gauges of the worst broker; all others add up."""


class RemoteCondition:
    """Implements `domain.ports.Condition`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def failure(self) -> EntrepotError | None:
        """None: brokers may fail, and a gateway goes on without them."""
        return None

    @property
    def damage(self) -> list[str]:
        told = (client.info for client in self._cluster.clients.values())
        return [f"broker {info.name!r}: {info.damage}" for info in told if info is not None and info.damage]

    async def measurements(self) -> dict[str, Histogram]:
        found: dict[str, Histogram] = {}
        for _, (measured, _, _) in await self._told(rows.MEASURE.ask()):
            for name, histogram in measured.items():
                if name in found:
                    found[name].add(histogram)
                else:
                    found[name] = histogram
        return found

    async def gauges(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for _, (_, gauges, _) in await self._told(rows.MEASURE.ask()):
            for name, value in gauges.items():
                known = found.get(name, 0.0)
                found[name] = max(known, value) if name in OF_THE_WORST else known + value
        return found

    async def tiering(self) -> list[TierStatus]:
        return [status for _, told in await self._told(rows.TIERING.ask()) for status in told]

    async def pins(self) -> list[Pin]:
        found = [pin for _, told in await self._told(rows.PINS.ask()) for pin in told]
        return sorted(found, key=lambda pin: -pin.bytes)

    async def _told(self, asked: Ask[T]) -> list[tuple[BrokerClient, T]]:
        """Return the answers of all brokers that give one."""
        answers = await ask_all(self._cluster.ready, lambda client: client.ask(asked))
        return [(client, told) for client, told in answers if not isinstance(told, EntrepotError)]
