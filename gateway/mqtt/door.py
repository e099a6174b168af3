"""MqttDoor: MQTT's front end, its listeners, and the `$SYS` topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from entrepot.domain.errors import EntrepotError
from entrepot.gateway.door.door import Counters, Door, Work
from entrepot.gateway.door.shown import ConnectedClient, DoorFigures
from entrepot.gateway.messaging.group_consumer import GroupConsumer
from entrepot.gateway.mqtt.fan_out.hub import DeliveryHub
from entrepot.gateway.mqtt.frontend import MqttFrontend
from entrepot.gateway.mqtt.listener import HTTP_PATH, MqttListeners
from entrepot.gateway.mqtt.shares.shares import Shares
from entrepot.gateway.mqtt.sys_messages import sys_topics
from entrepot.gateway.settings.version import own_version

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from entrepot.gateway.door.parts import Parts
    from entrepot.gateway.transport.certificates import ServerCertificates
    from entrepot.gateway.work.periodic_work import PeriodicWork

DRAIN_ORDER: Final = 50
"""After AMQP: its wills may go to AMQP's queues."""


class MqttDoor(Door):
    """The MQTT connections of one gateway."""

    name, drain_order = "mqtt", DRAIN_ORDER

    def __init__(self, parts: Parts) -> None:
        """Raise OSError for unusable certificates."""
        settings, sender, clock = parts.settings, parts.sender, parts.clock
        self._settings = settings.mqtt
        self.hub = DeliveryHub(parts.store, clock, sender.incidents)
        self.shares = Shares(
            parts.store,
            clock,
            settings.groups.by_use,
            lambda: self.hub.any_level_topics,
            sender.traffic,
            sender.incidents,
            lambda: sender.provenance.gateway,
        )
        self.frontend = MqttFrontend(parts, self.hub, self.shares)
        self._sys = sys_topics(self.frontend, own_version(), settings.mqtt.sys_interval_seconds)
        self._listeners = MqttListeners(
            settings.mqtt,
            parts.sockets,
            self.frontend.converse,
            parts.wheel,
            parts.early,
            settings.http.allowed_origins,
            settings.hosts,
            parts.security.takes_anonymous,
        )

    def websockets(self) -> Mapping[bytes, type[asyncio.Protocol]]:
        """Return the protocols of WebSocket paths on the HTTP port."""
        if not self._settings.enabled or not self._settings.ws_on_http:
            return {}
        return {HTTP_PATH.encode(): self._listeners.http_upgrade()}

    async def start(self) -> None:
        await self.frontend.start()
        if self._settings.enabled:
            self._sys.start()

    async def open(self) -> None:
        await self._listeners.start()

    async def stop_accepting(self, until: float) -> None:
        self._sys.close()
        self._listeners.stop_accepting()

    def say_goodbye(self) -> None:
        self.frontend.shut_down()

    def last_work(self) -> Sequence[Work]:
        return self.frontend.settle, self.shares.close, self.frontend.close  # wills and last records come first

    @property
    def certificates(self) -> ServerCertificates | None:
        return self._listeners.certificates

    @property
    def background(self) -> Sequence[PeriodicWork]:
        sweeper, frontend = self.frontend.sweeper, self.frontend
        return sweeper.rounds, frontend.census.counting, frontend.unused_groups.sweeping

    def counters(self) -> Counters:
        counted = self.frontend.counters
        return {
            "entrepot_mqtt_deliveries": ("Messages sent to MQTT subscribers", lambda: self.hub.delivered),
            "entrepot_mqtt_dropped": ("QoS 0 messages dropped for slow MQTT subscribers", lambda: counted.dropped),
            "entrepot_mqtt_refused_connections": (
                "MQTT connections closed before a CONNECT: limits, TLS, WebSocket, PROXY",
                lambda: self._listeners.refused,
            ),
        }

    @property
    def connections(self) -> int:
        return len(self.frontend.conversations)

    @property
    def figures(self) -> DoorFigures | None:
        if not self._settings.enabled:
            return None
        counted = self.frontend.counters
        published, refused = sum(counted.publishes.values()), sum(counted.refused.values())
        return DoorFigures(self.connections, published, self.hub.delivered, refused, counted.bytes_received)

    def clients(self) -> Iterator[ConnectedClient]:
        for each in self.frontend.accepted():
            client, held = each.client, len(each.machine.window.held)
            filters = each.subscribing.records.keys()
            yield ConnectedClient(client.client_id, client.user, client.peer, client.connected_at_ms, filters, held)

    async def disconnect(self, client: str, reason: str) -> bool:
        """Disconnect it with 0x98, which takes no reason."""
        found = self.frontend.registry.of(client)
        if found is None or not found.machine.is_open:
            return False
        found.kick()
        return True

    def consumers_of(self, group: str) -> list[GroupConsumer]:
        found = []
        for conversation in self.frontend.conversations:
            client = conversation.client
            for member in (conversation.subscribing.shares or {}).values():
                share = member.share
                try:
                    is_of_group = self.shares.group_name(share.name, share.filter) == group
                except EntrepotError:
                    continue  # its queue is gone
                if is_of_group:
                    held = self.shares.held_by(share.name, share.filter, member)
                    detail = f"$share/{share.name}/{share.filter}"
                    user, topics = client.user or "", (share.filter,)
                    found.append(
                        GroupConsumer("mqtt", client.client_id, user, client.peer, topics, held=held, detail=detail)
                    )
        return found
