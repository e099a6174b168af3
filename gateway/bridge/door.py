"""BridgeDoor: bridges to other brokers, a door that nobody connects to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.gateway.bridge.bridges import Bridges
from entrepot.gateway.door.door import Door

if TYPE_CHECKING:
    from entrepot.gateway.door.parts import Parts

DRAIN_ORDER: Final = 10
"""First: its pops are cancelled, not answered."""


class BridgeDoor(Door):
    """The bridges of one gateway.  Made only where one is configured: their libraries are imported with it."""

    name, drain_order = "bridge", DRAIN_ORDER

    def __init__(self, parts: Parts) -> None:
        self.bridges = Bridges(
            parts.settings.bridge,
            parts.store,
            parts.sender,
            parts.retained,
            parts.routes,
            parts.routes.rule_topics,
            parts.clock,
            parts.chance,
            parts.member.identity,
        )

    async def open(self) -> None:
        self.bridges.start()

    async def end_waiting(self, until: float) -> None:
        await self.bridges.stop()
