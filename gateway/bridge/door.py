"""BridgeDoor: bridges to other brokers, a door that nobody connects to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.gateway.bridge.bridge import Bridge, BridgeParts
from entrepot.gateway.bridge.bridges import Bridges
from entrepot.gateway.door.door import Door

if TYPE_CHECKING:
    from entrepot.gateway.bridge.status import BridgeStatus
    from entrepot.gateway.door.parts import Parts

DRAIN_ORDER: Final = 10
"""First: its pops are cancelled, not answered."""


class BridgeDoor(Door):
    """The bridges of one gateway.  Made only where one is configured: their libraries are imported with it."""

    name, drain_order = "bridge", DRAIN_ORDER

    def __init__(self, parts: Parts) -> None:
        shared = BridgeParts(
            parts.store,
            parts.sender,
            parts.retained,
            parts.routes,
            parts.routes.rule_topics,
            parts.clock,
            parts.chance,
            parts.member.identity,
        )
        self._all = [Bridge(remote, shared) for remote in parts.settings.bridge.remotes]
        self._bridges = Bridges(self._all)

    def status(self) -> list[BridgeStatus]:
        """Return the status of each, in the order of the settings."""
        return [bridge.status() for bridge in self._all]

    async def open(self) -> None:
        self._bridges.start()

    async def end_waiting(self, until: float) -> None:
        await self._bridges.stop()
