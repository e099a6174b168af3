"""ShownDoors: the doors of a gateway, as operations and metrics show them.

ADR 81: HTTP alone looks at the other doors, to show them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from entrepot.gateway.door.door import Counters
from entrepot.gateway.door.parts import Parts
from entrepot.gateway.door.shown import DoorFigures
from entrepot.gateway.events.admission import Admission
from entrepot.gateway.work.periodic_work import PeriodicWork

if TYPE_CHECKING:
    from entrepot.gateway.amqp.door import AmqpDoor
    from entrepot.gateway.amqp.frontend import AmqpFrontend
    from entrepot.gateway.bridge.door import BridgeDoor
    from entrepot.gateway.bridge.rocketmq.door import RocketMqBridgeDoor
    from entrepot.gateway.bridge.rocketmq.status import RocketMqBridgeStatus
    from entrepot.gateway.bridge.status import BridgeStatus
    from entrepot.gateway.events.door import EventsDoor
    from entrepot.gateway.messaging.group_consumer import GroupConsumer
    from entrepot.gateway.mqtt.door import MqttDoor
    from entrepot.gateway.mqtt.frontend import MqttFrontend
    from entrepot.gateway.rocketmq.connected import RocketMqClients
    from entrepot.gateway.rocketmq.door import RocketMqDoor

LISTENED: Final = ("amqp", "mqtt", "http", "grpc")
"""Doors that have a number of connections in `/metrics` also where they are not open."""


@dataclass(frozen=True, slots=True)
class ShownDoors:
    """All doors of `parts`, and what has operations of its own; None for a door that is not open.

    `bridges`, `rocketmq_bridges`: return the state of each bridge.
    """

    parts: Parts
    admission: Admission
    mqtt: MqttFrontend | None
    amqp: AmqpFrontend | None
    rocketmq: RocketMqClients | None
    bridges: Callable[[], list[BridgeStatus]]
    rocketmq_bridges: Callable[[], list[RocketMqBridgeStatus]]

    @classmethod
    def of(cls, parts: Parts) -> ShownDoors:
        """Find them among the doors that were made before."""
        named: dict[str, Any] = {door.name: door for door in parts.doors}
        mqtt: MqttDoor | None = named.get("mqtt")
        amqp: AmqpDoor | None = named.get("amqp")
        rocketmq: RocketMqDoor | None = named.get("grpc")
        bridge: BridgeDoor | None = named.get("bridge")
        rocketmq_bridge: RocketMqBridgeDoor | None = named.get("rocketmq_bridge")
        events: EventsDoor = named["events"]
        return cls(
            parts,
            events.admission,
            None if mqtt is None else mqtt.frontend,
            amqp.frontend if amqp is not None and parts.settings.amqp.enabled else None,
            None if rocketmq is None else rocketmq.service,
            list if bridge is None else bridge.status,
            list if rocketmq_bridge is None else rocketmq_bridge.status,
        )

    @property
    def counters(self) -> Counters:
        """The counters of the gateway, by their names."""
        found = dict(self.parts.counters)
        for door in self.parts.doors:
            found |= door.counters()
        return found

    @property
    def connections(self) -> dict[str, int]:
        """Numbers of open connections, by the name of the door."""
        return dict.fromkeys(LISTENED, 0) | {
            door.name: door.connections for door in self.parts.doors if door.connections is not None
        }

    def figures(self) -> dict[str, DoorFigures]:
        """Return the figures of each door that is open, by its protocol."""
        return {door.protocol: found for door in self.parts.doors if (found := door.figures) is not None}

    @property
    def background(self) -> list[PeriodicWork]:
        """The periodic work of the gateway."""
        own = self.parts.member.work, self.parts.retained.sweeping
        return [*own, *(work for door in self.parts.doors for work in door.background)]

    def consumers_of(self, group: str) -> list[GroupConsumer]:
        """Return the consumers of a group that are connected to this gateway, by the group's stored name."""
        return [consumer for door in self.parts.doors for consumer in door.consumers_of(group)]
