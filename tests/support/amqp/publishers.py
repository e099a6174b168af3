"""Publishers of the AMQP door over a store in memory, without sockets: what is sent, returned and refused is kept."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Self

from entrepot.domain.access.model import Action, Effect, Origin, Principal, Statement
from entrepot.domain.errors import EntrepotError
from entrepot.domain.exchanges.exchange import Exchange, ExchangeType
from entrepot.domain.message import Message
from entrepot.domain.queues.declaration import declared_queue
from entrepot.gateway.amqp.connections.channel import AmqpChannel
from entrepot.gateway.amqp.connections.channel_output import ChannelOutput
from entrepot.gateway.amqp.connections.client import ClientInfo
from entrepot.gateway.amqp.connections.remembered_publishes import Known, RememberedPublishes
from entrepot.gateway.amqp.frontend import AmqpFrontend
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import VirtualHosts
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import OnSent, Sender
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.security.changes import By, UserChange
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings import SecuritySettings, Settings
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.content import received_header
from entrepot.protocols.amqp.errors import AmqpError
from tests.support.cheap_hashes import CHEAP_HASHES
from tests.support.clock import ManualClock
from tests.support.gateways.members import member_named
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced

ME = By("me", "127.0.0.1")


class Forgetful(RememberedPublishes):
    """Keeps nothing: every publish goes the whole way."""

    def of(self, vhost: Vhost, principal: Principal | None, now_ms: int) -> Known | None:
        return None


@dataclass
class Outcome:
    """The results of a run of publishes."""

    messages: list[Message] = field(default_factory=list)
    tags: list[int] = field(default_factory=list)
    confirmed: list[int] = field(default_factory=list)
    returned: list[tuple[str, str]] = field(default_factory=list)
    timed: list[tuple[str, int]] = field(default_factory=list)
    refused: str = ""

    @property
    def topics(self) -> list[str]:
        """The topics that the only message goes to."""
        (message,) = self.messages
        return [message.topic, *(topic for topic, _ in message.further_queues)]


class _Kept:
    """Stands for the connection's machine, the overflow and the sender, and takes down what they are told."""

    def __init__(self) -> None:
        self.outcome = Outcome()

    def confirm(self, channel: int, tags: Sequence[int]) -> None:
        self.outcome.confirmed += tags

    def return_(self, channel: int, code: int, text: str, exchange: str, routing_key: str, *more: object) -> None:
        self.outcome.returned.append((exchange, routing_key))

    def admit(
        self, vhost: Vhost, messages: list[Message], on_sent: OnSent, source: object = None
    ) -> Awaitable[None] | None:
        self.send(messages, on_sent)
        return None

    def send(self, messages: list[Message], on_sent: OnSent, source: object = None) -> None:
        self.outcome.messages += messages
        self.outcome.tags += on_sent.tags  # type: ignore[attr-defined]

    def expect(self, vhost: Vhost, queue: Queue, at_ms: int) -> None:
        self.outcome.timed.append((queue.name, at_ms))


class Publisher:
    """One channel of one login."""

    def __init__(self, frontend: AmqpFrontend, principal: Principal, *, confirms: bool = False) -> None:
        self._frontend = frontend
        client, vhost = ClientInfo("g"), frontend.virtual_hosts.definitions.vhost("/")
        assert vhost is not None
        client.principal, client.vhost, client.login_name = principal, vhost, principal.name
        nothing: Any = SimpleNamespace(before_end=None)
        out = ChannelOutput(nothing, nothing, 1)
        self.channel = AmqpChannel(frontend.services, client, vhost, out, {}, nothing)
        self.channel.publishing.confirms = confirms

    def publish(self, *publishes: Publish) -> Outcome:
        kept: Any = _Kept()
        services = self._frontend.services
        self.channel.out.machine = self._frontend.virtual_hosts.overflow = kept
        self._frontend.virtual_hosts.routing.on_timed = kept.expect
        sender, services.sender = services.sender, replaced(services.sender, send=kept.send)
        try:
            assert self.channel.publishing.take(list(publishes)) is None
        except (AmqpError, EntrepotError) as refusal:
            kept.outcome.refused = str(refusal)
        finally:
            services.sender = sender
        return kept.outcome

    def send(self, exchange: str, key: str, header: bytes = b"\x10\0\x02", *, mandatory: bool = False) -> Outcome:
        """Publish one message."""
        return self.publish(Publish(exchange, key, mandatory, received_header(header), b"body"))


class Site:
    """A store, its definitions and rights, and a door; `plain` is a second door that keeps nothing."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        settings = SecuritySettings(**CHEAP_HASHES)
        self.security = Security(self.store.key_values, settings, self.clock)
        self.definitions = Definitions(self.store)

    async def open(self) -> Self:
        await self.security.start()
        await self.definitions.start()
        self.door, self.plain = self._door(), self._door()
        self.plain.services.remembered = Forgetful(self.definitions, self.security, self.store.topology)
        return self

    def _door(self) -> AmqpFrontend:
        settings = Settings()
        topology = Topology(self.store, settings.topics)
        routes = Routes(self.store, topology, [])
        sender = Sender(self.store, topology, self.clock)
        member = member_named(self.store, self.clock)
        hosts = VirtualHosts(self.store, sender, routes, self.definitions, settings.amqp, self.clock, member)
        return AmqpFrontend(hosts, sender, self.security, settings.amqp, self.clock, "1")

    async def close(self) -> None:
        self.definitions.close()
        self.security.close()
        await self.store.close()

    @property
    def vhost(self) -> Vhost:
        found = self.definitions.vhost("/")
        assert found is not None
        return found

    async def queue(self, name: str, **arguments: object) -> Queue:
        wanted = declared_queue(name, "/", durable=True, arguments=arguments)
        made, _ = await self.definitions.declare_queue(self.vhost, wanted, gateway="g", connection="", now_ms=1)
        return made

    async def delete_queue(self, name: str) -> None:
        if (queue := self.vhost.queue(name)) is not None:
            await self.definitions.delete_queue(self.vhost, queue)

    async def exchange(self, name: str, kind: ExchangeType, **more: Any) -> None:
        await self.definitions.declare_exchange(self.vhost, Exchange(name, kind, **more), "g")

    async def user(self, name: str, *, is_super: bool = False) -> Principal:
        """A user that has just logged in."""
        record, _ = await self.security.administration.put_user(ME, name, UserChange(name, is_super=is_super))
        return Principal(name, Origin.PASSWORD, "10.0.0.9", "", record.credential)

    async def allow(self, name: str, *resources: str, effect: Effect = Effect.ALLOW) -> None:
        """Let a user publish to these, and to no others."""
        statements = [Statement(effect, (Action.PUB,), resources)] if resources else []
        await self.security.administration.put_policy(ME, name, statements)


def anybody() -> Principal:
    """A client that is let in while no user is defined."""
    return Principal("anonymous", Origin.ANONYMOUS, "127.0.0.1")
