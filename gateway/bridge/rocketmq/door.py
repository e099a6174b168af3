"""RocketMqBridgeDoor: bridges to RocketMQ clusters, a door that nobody connects to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.gateway.bridge.bridges import Bridges
from entrepot.gateway.bridge.rocketmq.bridge import RocketMqBridge, RocketMqBridgeParts
from entrepot.gateway.door.door import Door

if TYPE_CHECKING:
    from entrepot.gateway.bridge.rocketmq.status import RocketMqBridgeStatus
    from entrepot.gateway.door.parts import Parts

DRAIN_ORDER: Final = 10
"""First: its pops are cancelled, not answered."""


class RocketMqBridgeDoor(Door):
    """The bridges to RocketMQ clusters of one gateway.  Made only where one is configured."""

    name, drain_order = "rocketmq_bridge", DRAIN_ORDER

    def __init__(self, parts: Parts) -> None:
        shared = RocketMqBridgeParts(parts.store, parts.sender, parts.clock, parts.chance, parts.member.identity)
        self._all = [RocketMqBridge(remote, shared) for remote in parts.settings.rocketmq_bridge.remotes]
        self._bridges = Bridges(self._all)

    def status(self) -> list[RocketMqBridgeStatus]:
        """Return the status of each, in the order of the settings."""
        return [bridge.status() for bridge in self._all]

    async def open(self) -> None:
        self._bridges.start()

    async def end_waiting(self, until: float) -> None:
        await self._bridges.stop()
