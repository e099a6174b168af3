"""AmqpConversation: one connection: its login, its virtual host and its channels.

ADR 6: the machine decodes, the conversation decides, the driver acts. Invariant: whatever ends a connection, its
channels and exclusive queues are given up once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import Any, Protocol

import structlog

from entrepot.domain.access.model import Principal
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.amqp.connections.channel import AmqpChannel
from entrepot.gateway.amqp.connections.channel_output import ChannelOutput
from entrepot.gateway.amqp.connections.client import ClientInfo
from entrepot.gateway.amqp.connections.large_output import LargeOutput
from entrepot.gateway.amqp.connections.limits import channel_refusal, connection_refusal
from entrepot.gateway.amqp.connections.login import CERTIFIED_MECHANISMS, credentials_of
from entrepot.gateway.amqp.connections.messages import HANDLERS
from entrepot.gateway.amqp.connections.services import AmqpServices
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
from entrepot.gateway.transport.driver import Driver
from entrepot.protocols.amqp.connection import ServerConnection
from entrepot.protocols.amqp.connection_events import (
    Acks,
    ChannelClosed,
    ChannelOpened,
    Closed,
    Closing,
    Event,
    Login,
    Method,
    Open,
    Publishes,
)
from entrepot.protocols.amqp.method_codec import AmqpMethod
from entrepot.protocols.amqp.methods_connection import ConnectionUpdateSecret, ConnectionUpdateSecretOk
from entrepot.protocols.amqp.reply_codes import ReplyCode

log = structlog.get_logger(__name__)


class Connections(Protocol):
    """A connection's view of its front end."""

    def opened(self, conversation: AmqpConversation) -> None:
        """Note an accepted socket."""

    def closed(self, conversation: AmqpConversation) -> None:
        """Note a closed socket."""

    def refusal(self) -> str | None:
        """The reason to refuse new connections now, or None."""

    def logged_in(self) -> Iterator[AmqpConversation]:
        """The open connections that have a virtual host."""


class AmqpConversation:
    """One AMQP connection.  Implements `gateway.driver.Conversation`."""

    __slots__ = (
        "_before_end",
        "_connections",
        "_is_ended",
        "_large",
        "_leaving",
        "_login",
        "_services",
        "channels",
        "client",
        "driver",
        "is_blocked",
        "machine",
    )

    def __init__(
        self, services: AmqpServices, client: ClientInfo, machine: ServerConnection, connections: Connections
    ) -> None:
        self._services, self.client, self.machine, self._connections = services, client, machine, connections
        self.driver: Driver | None = None
        self.channels: dict[int, AmqpChannel] = {}
        self._login: Login | None = None
        self._is_ended = False
        self._large: LargeOutput | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._before_end: set[asyncio.Task[None]] = set()
        self.is_blocked = False

    # -- the driver's side ---------------------------------------------------------------------------------------

    def connected(self, driver: Driver) -> None:
        self.driver = driver
        if driver.source.certificate is not None:
            self.machine.greeting = replace(self.machine.greeting, mechanisms=CERTIFIED_MECHANISMS)
        self._connections.opened(self)

    def received(self, data: bytes, now: float) -> None:
        before = self.machine.incomplete_bytes
        for event in self.machine.receive_data(data, now):
            self._handle(event)
        if self.machine.incomplete_bytes != before:
            self._services.incomplete.note(self, self.machine.incomplete_bytes)

    def data_to_send(self) -> bytes:
        if self.machine.is_slicing and self.driver is not None and not self._is_ended:
            if self._large is None:
                self._large = LargeOutput(self.machine, self.driver, self._services.loop, self._large_has_left)
            return self._large.next_slice()
        return self.machine.data_to_send()

    def _large_has_left(self) -> None:
        self._large = None
        for channel in tuple(self.channels.values()):
            channel.go_on()
        self.writable()
        self.flush()

    def deadline(self) -> float:
        return self.machine.deadline()

    def timed_out(self, now: float) -> None:
        if self.driver is not None and self.driver.is_paused:
            self.machine.note_alive(now)  # it is not read: its heartbeats may wait in the socket
        for event in self.machine.handle_timeout(now):
            self._handle(event)
        self.flush()

    def resumed(self, now: float) -> None:
        self.machine.note_alive(now)

    def writable(self) -> None:
        for channel in tuple(self.channels.values()):
            channel.consuming.has_room()

    def overburdened(self) -> None:
        text = "clients that have not logged in send too much"
        self.close_connection(ReplyCode.RESOURCE_ERROR, text)

    def lost(self) -> None:
        self.machine.lost()
        self._services.incomplete.note(self, 0)
        self._end()
        self._connections.closed(self)
        self.driver = None

    # -- events --------------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        if isinstance(event, Publishes | Acks):
            channel = self.channels.get(event.channel)
            if channel is not None:
                channel.take(event)
        elif isinstance(event, Method):
            if event.channel == 0:
                self._update_secret(event.method)
            elif (channel := self.channels.get(event.channel)) is not None:
                channel.take(event)
        elif isinstance(event, ChannelOpened):
            self._open_channel(event.channel)
        elif isinstance(event, ChannelClosed):
            self._channel_closed(event)
        elif isinstance(event, Login):
            self._login = event
            self._spawn(self._authenticate(event))
        elif isinstance(event, Open):
            self._open(event.virtual_host)
        elif isinstance(event, Closing):
            self._closing(event)
        elif isinstance(event, Closed) and self.driver is not None:
            self.driver.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._services.virtual_hosts.tasks.spawn(work)

    async def _authenticate(self, login: Login) -> None:
        machine = self.machine
        try:
            if self.driver is None:
                return
            credentials = credentials_of(login, self.driver.source)
            principal = await self._services.security.authenticate(credentials)
        except EntrepotError as error:
            log.info("a login was refused", seldom="amqp", peer=self.peer, reason=error.message)
            text = f"Login was refused using authentication mechanism {login.mechanism[:40]}"
            self._handle(machine.refuse(text))
            self.flush()
            return
        if machine.is_closed or self.driver is None:
            return
        client = self.client
        client.principal, client.login_name = principal, credentials.username or principal.name
        client.properties = dict(login.client_properties)
        self._watch_end()
        machine.authenticated()
        self._go_on()

    def _open(self, name: str) -> None:
        vhost = self._services.virtual_hosts.definitions.vhost(name)
        machine, refused = self.machine, self._connections.refusal()
        if refused is not None:
            self._handle(machine.close(ReplyCode.CONNECTION_FORCED, refused))
        elif vhost is None:
            self._handle(machine.close(ReplyCode.NOT_ALLOWED, f"vhost {name} not found", 10, 40))
        elif refusal := self._refusal(vhost):
            self._handle(machine.close(ReplyCode.NOT_ALLOWED, refusal, 10, 40))
        else:
            self.client.vhost = vhost
            self._services.counters.connections_opened += 1
            self.client.connected_at_ms = self._services.clock.now_ms()
            machine.opened()
            if self.driver is not None:
                self.driver.admitted()
                self.driver.deadline_moved()
        self._go_on()

    def _refusal(self, vhost: Vhost) -> str | None:
        """The rights or the limit that refuse this connection, in words, or None."""
        if not self._services.access.may_enter(self.client, vhost):
            return f"access to vhost '{vhost.name}' refused for user '{self.client.login_name}'"
        parameters = self._services.virtual_hosts.parameters
        others = (each.client for each in self._connections.logged_in())
        return connection_refusal(parameters, vhost, self.client.login_name, others)

    def _go_on(self) -> None:
        for event in self.machine.go_on():
            self._handle(event)
        self.flush()

    def _update_secret(self, method: AmqpMethod) -> None:
        if isinstance(method, ConnectionUpdateSecret):
            self._spawn(self._take_secret(method))

    async def _take_secret(self, method: ConnectionUpdateSecret) -> None:
        """Authenticate anew with a new secret of the same user, because the old one is about to expire.  Where it does
        not expire, it stays, and any new one is taken, as at RabbitMQ."""
        login, principal = self._login, self.client.principal
        if login is None or principal is None or self.driver is None:
            return
        if principal.expires_at_ms is None:
            self.machine.answer(ConnectionUpdateSecretOk())
            self.flush()
            return
        response = b"\0" + principal.name.encode() + b"\0" + method.new_secret
        try:
            again = Login("PLAIN", response, {}, login.locale)
            renewed = await self._services.security.authenticate(credentials_of(again, self.driver.source))
            if renewed.name != principal.name:
                raise EntrepotError(Code.UNAUTHORIZED, "the secret is somebody else's")
        except EntrepotError as error:
            text = f"connection.update-secret: {error.message}"
            self._handle(self.machine.close(ReplyCode.NOT_ALLOWED, text, 10, 70))
        else:
            self._forget_publishes()
            self.client.principal = renewed
            self._watch_end()
            self.machine.answer(ConnectionUpdateSecretOk())
        self.flush()

    def _watch_end(self) -> None:
        """Close the connection when its credentials expire, unless newer ones have come by then."""
        principal = self.client.principal
        if principal is not None and principal.expires_at_ms is not None:
            seconds = max(principal.expires_at_ms - self._services.clock.now_ms(), 0) / 1000
            self._services.loop.call_later(seconds, self._look_at_end, principal)

    def _look_at_end(self, principal: Principal) -> None:
        if self.client.principal is principal and not self.machine.is_closed:
            self.close_connection(ReplyCode.CONNECTION_FORCED, "the credentials have expired")

    # -- channels ------------------------------------------------------------------------------------------------

    def _open_channel(self, number: int) -> None:
        vhost, driver = self.client.vhost, self.driver
        if vhost is not None and driver is not None:
            parameters, user = self._services.virtual_hosts.parameters, self.client.login_name
            opened = ((each.client.login_name, len(each.channels)) for each in self._connections.logged_in())
            refused = channel_refusal(parameters, user, opened)
            if refused is not None:
                self.close_connection(ReplyCode.NOT_ALLOWED, refused)
                return
            out = ChannelOutput(self.machine, driver, number)
            self._services.counters.channels_opened += 1
            self.channels[number] = AmqpChannel(self._services, self.client, vhost, out, HANDLERS, self)

    def _channel_closed(self, event: ChannelClosed) -> None:
        channel = self.channels.pop(event.channel, None)
        if channel is not None:
            self._close(channel)
        if not event.is_clients:
            return
        if self._before_end:
            self._spawn(self._close_channel_ok(event.channel))
        else:
            self.machine.close_channel_ok(event.channel)

    async def _close_channel_ok(self, number: int) -> None:
        """Send channel.close-ok, once the channel's publishes are in their queues and its auto-delete queues are
        gone."""
        await self._gone()
        self.machine.close_channel_ok(number)
        self.flush()

    def _close(self, channel: AmqpChannel) -> None:
        channel.close()
        if channel.publishing.is_under_way:
            self.before_end(self._spawn(channel.publishing.settled()))

    def channel_failed(self, number: int) -> None:
        """Note that the server has closed a channel."""
        self.channels.pop(number, None)
        self._services.incomplete.note(self, self.machine.incomplete_bytes)

    def before_end(self, work: asyncio.Task[None]) -> None:
        """Delay close-ok to the client until this task is done."""
        self._before_end.add(work)
        work.add_done_callback(self._before_end.discard)

    async def _gone(self) -> None:
        if self._before_end:
            await asyncio.wait(tuple(self._before_end))

    def close_connection(self, code: ReplyCode, text: str, class_id: int = 0, method_id: int = 0) -> None:
        """End the connection from the server's side."""
        self._handle(self.machine.close(code, text, class_id, method_id))
        self.flush()

    # -- the front end's side ------------------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        return "" if self.driver is None else self.driver.peer

    def flush(self) -> None:
        if self.driver is not None:
            self.driver.flush()

    def block(self, reason: str) -> None:
        """Send connection.blocked to a client that publishes, and pause reading from it."""
        if not self.is_blocked and self.client.has_published and self.driver is not None:
            self.is_blocked = True
            self.machine.block(reason)
            self.flush()
            self.driver.pause_reading(self)

    def unblock(self) -> None:
        if self.is_blocked and self.driver is not None:
            self.is_blocked = False
            self.machine.unblock()
            self.flush()
            self.driver.resume_reading(self)

    # -- the end -------------------------------------------------------------------------------------------------

    def _closing(self, event: Closing) -> None:
        if not event.is_clients:
            kind = f"amqp {event.reply_code}"
            log.info("connection closed by the server", seldom=kind, protocol="amqp", peer=self.peer, text=event.text)
        self._end()
        if event.is_final:
            if self.driver is not None:
                self.driver.close()
        elif event.is_clients:
            self._spawn(self._close_ok())
        elif self.driver is not None:
            self.driver.deadline_moved()  # a client that does not answer is cut by then

    async def _close_ok(self) -> None:
        """Send connection.close-ok, once what the connection owned is deleted."""
        await self._gone()
        if self._leaving is not None:
            await asyncio.wait((self._leaving,))
        self.machine.close_ok()
        if self.driver is not None:
            self.driver.finish()

    def _end(self) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        for channel in tuple(self.channels.values()):
            self._close(channel)
        self.channels.clear()
        self._forget_publishes()
        self._leaving = self._spawn(self._leave())

    async def _leave(self) -> None:
        if self.client.vhost is not None:
            await self._services.virtual_hosts.delete_owned(self.client.vhost, self.client.identity)

    def _forget_publishes(self) -> None:
        client = self.client
        if client.vhost is not None and client.principal is not None:
            self._services.remembered.leave(client.vhost, client.principal)
