"""ShownDoors: the doors of a gateway, as operations and metrics show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from entrepot.gateway.door.door import Counters, Door
from entrepot.gateway.work.periodic_work import PeriodicWork

if TYPE_CHECKING:
    from entrepot.gateway.amqp.frontend import AmqpFrontend
    from entrepot.gateway.bridge.status import BridgeStatus
    from entrepot.gateway.messaging.group_consumer import GroupConsumer
    from entrepot.gateway.mqtt.frontend import MqttFrontend
    from entrepot.gateway.rocketmq.connected import RocketMqClients

LISTENED: Final = ("amqp", "mqtt", "http", "grpc")
"""Doors that have a number of connections in `/metrics` also where they are not open."""


@dataclass(slots=True)
class ShownDoors:
    """All doors, and those with operations of their own; None for one that is not open.

    `shared_work`, `shared_counters`: those of what all doors share.  `bridges`: the state of each bridge.
    """

    doors: list[Door] = field(default_factory=list)
    mqtt: MqttFrontend | None = None
    amqp: AmqpFrontend | None = None
    rocketmq: RocketMqClients | None = None
    bridges: Callable[[], list[BridgeStatus]] = list
    shared_work: Sequence[PeriodicWork] = ()
    shared_counters: Counters = field(default_factory=dict)

    @property
    def counters(self) -> Counters:
        """The counters of the gateway, by their names."""
        found = dict(self.shared_counters)
        for door in self.doors:
            found |= door.counters()
        return found

    @property
    def connections(self) -> dict[str, int]:
        """Numbers of open connections, by the name of the door."""
        return dict.fromkeys(LISTENED, 0) | {
            door.name: door.connections for door in self.doors if door.connections is not None
        }

    @property
    def background(self) -> list[PeriodicWork]:
        """The periodic work of the gateway."""
        return [*self.shared_work, *(work for door in self.doors for work in door.background)]

    def consumers_of(self, group: str) -> list[GroupConsumer]:
        """Return the consumers of a group that are connected to this gateway, by the group's stored name."""
        return [consumer for door in self.doors for consumer in door.consumers_of(group)]
