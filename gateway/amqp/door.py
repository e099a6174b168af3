"""AmqpDoor: AMQP's virtual hosts, front end and listeners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from entrepot.gateway.amqp.connections.shown_names import channel_name, connection_name
from entrepot.gateway.amqp.frontend import AmqpFrontend
from entrepot.gateway.amqp.listener import amqp_listeners
from entrepot.gateway.amqp.virtual_hosts.bindings import Bindings
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions
from entrepot.gateway.amqp.virtual_hosts.shared_queues import SharedQueues
from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import VirtualHosts
from entrepot.gateway.door.door import Counters, Door, Work
from entrepot.gateway.door.shown import ConnectedClient, DoorFigures
from entrepot.gateway.messaging.group_consumer import GroupConsumer
from entrepot.gateway.settings.version import own_version
from entrepot.protocols.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from entrepot.gateway.door.parts import Parts
    from entrepot.gateway.transport.certificates import ServerCertificates
    from entrepot.gateway.work.periodic_work import PeriodicWork

DRAIN_ORDER: Final = 40


class AmqpDoor(Door):
    """The AMQP connections of one gateway, and the virtual hosts that every door may send to."""

    name, drain_order = "amqp", DRAIN_ORDER

    def __init__(self, parts: Parts) -> None:
        """Raise OSError for unusable certificates."""
        settings = parts.settings.amqp
        self._is_enabled = settings.enabled
        hosts = self.hosts = VirtualHosts(
            parts.store,
            parts.sender,
            parts.routes,
            Definitions(parts.store),
            settings,
            parts.clock,
            parts.member,
        )
        parts.sender.bindings = Bindings(parts.store, hosts.definitions, hosts.expiry.expect)
        self.shared_queues = SharedQueues(hosts.definitions, hosts.dead_letters)
        self.frontend = AmqpFrontend(hosts, parts.sender, parts.security, settings, parts.clock, own_version())
        self._listeners = amqp_listeners(settings, parts.sockets, self.frontend.converse, parts.wheel, parts.early)

    async def start(self) -> None:
        if self._is_enabled:
            await self.frontend.start()

    async def open(self) -> None:
        await self._listeners.start()

    async def stop_accepting(self, until: float) -> None:
        self._listeners.stop_accepting()

    def say_goodbye(self) -> None:
        self.frontend.shut_down()

    def last_work(self) -> Sequence[Work]:
        return (self.frontend.close,)

    @property
    def certificates(self) -> ServerCertificates | None:
        return self._listeners.certificates

    @property
    def background(self) -> Sequence[PeriodicWork]:
        return (self.hosts.expiry.sweeping,)

    def counters(self) -> Counters:
        counted, consumption, letters = self.frontend.counters, self.hosts.consumption, self.hosts.dead_letters
        return {
            "entrepot_amqp_publishes": ("Messages published by AMQP clients", lambda: counted.published),
            "entrepot_amqp_confirms": ("AMQP publishes confirmed", lambda: counted.confirmed),
            "entrepot_amqp_refused_publishes": ("AMQP publishes refused", lambda: counted.refused),
            "entrepot_amqp_returns": ("Unroutable mandatory AMQP messages returned", lambda: counted.returned),
            "entrepot_amqp_deliveries": ("Messages sent to AMQP consumers", lambda: consumption.total.delivered),
            "entrepot_amqp_acknowledgements": (
                "Messages acknowledged by AMQP consumers",
                lambda: consumption.total.acknowledged,
            ),
            "entrepot_amqp_dead_letters": ("Dead letters of AMQP queues published", lambda: letters.count),
        }

    @property
    def connections(self) -> int:
        return len(self.frontend.conversations)

    @property
    def figures(self) -> DoorFigures | None:
        if not self._is_enabled:
            return None
        counted, delivered = self.frontend.counters, self.hosts.consumption.total.delivered
        return DoorFigures(self.connections, counted.published, delivered, counted.refused)

    def clients(self) -> Iterator[ConnectedClient]:
        for each in self.frontend.logged_in():
            client, driver = each.client, each.driver
            consuming = [channel.consuming for channel in each.channels.values()]
            yield ConnectedClient(
                connection_name(driver),
                client.login_name,
                "" if driver is None else driver.peer,
                client.connected_at_ms,
                {consumer.queue.name for one in consuming for consumer in one.consumers.values()},
                sum(len(one.held) for one in consuming),
                client.vhost_name,
            )

    async def disconnect(self, client: str, reason: str) -> bool:
        """Close a connection by its name."""
        found = [each for each in self.frontend.logged_in() if connection_name(each.driver) == client]
        for each in found:
            each.close_connection(ReplyCode.CONNECTION_FORCED, reason)
        return bool(found)

    def consumers_of(self, group: str) -> list[GroupConsumer]:
        return [
            GroupConsumer(
                "amqp",
                channel_name(channel),
                channel.client.login_name,
                "" if channel.out.driver is None else channel.out.driver.source.host,
                (consumer.queue.topic,),
                held=consumer.held,
                detail=consumer.tag,
            )
            for conversation in self.frontend.conversations
            for channel in conversation.channels.values()
            for consumer in channel.consuming.consumers.values()
            if consumer.queue.group == group
        ]
