"""AmqpConversation: one connection: its login, its virtual host, and its channels."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from domain.access.model import Principal
from domain.errors import Code, EntrepotError
from gateway.amqp.connections.channel import AmqpChannel
from gateway.amqp.connections.login import credentials_of
from gateway.amqp.virtual_hosts.vhost import Vhost
from gateway.driver import Driver
from protocols.amqp.connection import ServerConnection
from protocols.amqp.connection_events import (
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
from protocols.amqp.methods import AmqpMethod, ConnectionUpdateSecret, ConnectionUpdateSecretOk
from protocols.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from gateway.amqp.frontend import AmqpFrontend

log = structlog.get_logger(__name__)


class AmqpConversation:
    """See the module."""

    __slots__ = (
        "_going",
        "_is_ended",
        "_leaving",
        "_login",
        "_name",
        "channels",
        "client_properties",
        "connected_at_ms",
        "driver",
        "frontend",
        "has_published",
        "identity",
        "is_blocked",
        "machine",
        "principal",
        "vhost",
    )

    def __init__(self, frontend: AmqpFrontend, now: float) -> None:
        self.frontend = frontend
        self.machine = ServerConnection(frontend.limits, frontend.greeting, now)
        self.driver: Driver | None = None
        self.identity = frontend.new_identity()
        """Names the connection among all of all gateways: exclusive queues are its."""
        self.principal: Principal | None = None
        self.vhost: Vhost | None = None
        self.channels: dict[int, AmqpChannel] = {}
        self.client_properties: dict[str, object] = {}
        self.connected_at_ms = 0
        self._login: Login | None = None
        self._name = ""
        self._is_ended = False
        self._leaving: asyncio.Task[None] | None = None
        self._going: set[asyncio.Task[None]] = set()
        self.has_published = self.is_blocked = False

    # -- the driver's side ---------------------------------------------------------------------------------------

    def connected(self, driver: Driver) -> None:
        self.driver = driver
        if driver.source.certificate is not None:
            self.machine.greeting = self.frontend.certified_greeting
        self.frontend.opened(self)

    def received(self, data: bytes, now: float) -> None:
        for event in self.machine.receive_data(data, now):
            self._handle(event)

    def data_to_send(self) -> bytes:
        return self.machine.data_to_send()

    def deadline(self) -> float:
        return self.machine.deadline()

    def timed_out(self, now: float) -> None:
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
        self._end()
        self.frontend.closed(self)
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
            self.channels[event.channel] = AmqpChannel(self, event.channel)
        elif isinstance(event, ChannelClosed):
            self._channel_closed(event)
        elif isinstance(event, Login):
            self._login = event
            self.frontend.tasks.spawn(self._authenticate(event))
        elif isinstance(event, Open):
            self._open(event.virtual_host)
        elif isinstance(event, Closing):
            self._closing(event)
        elif isinstance(event, Closed) and self.driver is not None:
            self.driver.close()

    async def _authenticate(self, login: Login) -> None:
        machine = self.machine
        try:
            if self.driver is None:
                return
            credentials = credentials_of(login, self.driver.source)
            principal = await self.frontend.security.authenticate(credentials)
        except EntrepotError as error:
            log.info("a login was refused", seldom="amqp", peer=self.peer, reason=error.message)
            text = f"Login was refused using authentication mechanism {login.mechanism[:40]}"
            self._handle(machine.refuse(text))
            self.flush()
            return
        if machine.is_closed or self.driver is None:
            return
        self.principal = principal
        self._name = credentials.username or principal.name
        self.client_properties = dict(login.client_properties)
        self._watch_end()
        machine.authenticated()
        self._go_on()

    def _open(self, name: str) -> None:
        vhost = self.frontend.virtual_hosts.definitions.vhost(name)
        frontend, machine = self.frontend, self.machine
        refused = frontend.refusal()
        if refused is not None:
            self._handle(machine.close(ReplyCode.CONNECTION_FORCED, refused))
        elif vhost is None:
            self._handle(machine.close(ReplyCode.NOT_ALLOWED, f"vhost {name} not found", 10, 40))
        else:
            self.vhost = vhost
            self.connected_at_ms = frontend.clock.now_ms()
            machine.opened()
            if self.driver is not None:
                self.driver.admitted()
                self.driver.deadline_moved()
        self._go_on()

    def _go_on(self) -> None:
        for event in self.machine.go_on():
            self._handle(event)
        self.flush()

    def _update_secret(self, method: AmqpMethod) -> None:
        if isinstance(method, ConnectionUpdateSecret):
            self.frontend.tasks.spawn(self._take_secret(method))

    async def _take_secret(self, method: ConnectionUpdateSecret) -> None:
        """A new secret of the same user, whose old one is about to expire."""
        login, principal = self._login, self.principal
        if login is None or principal is None or self.driver is None:
            return
        response = b"\0" + principal.name.encode() + b"\0" + method.new_secret
        try:
            again = Login("PLAIN", response, {}, login.locale)
            renewed = await self.frontend.security.authenticate(credentials_of(again, self.driver.source))
            if renewed.name != principal.name:
                raise EntrepotError(Code.UNAUTHORIZED, "the secret is somebody else's")
        except EntrepotError as error:
            text = f"connection.update-secret: {error.message}"
            self._handle(self.machine.close(ReplyCode.NOT_ALLOWED, text, 10, 70))
        else:
            if self.vhost is not None:
                self.frontend.remembered.leave(self.vhost, principal)
            self.principal = renewed
            self._watch_end()
            self.machine.answer(ConnectionUpdateSecretOk())
        self.flush()

    def _watch_end(self) -> None:
        """What the client was let in by may end: then the connection does, unless it has shown something newer."""
        principal = self.principal
        if principal is not None and principal.expires_at_ms is not None:
            seconds = max(principal.expires_at_ms - self.frontend.clock.now_ms(), 0) / 1000
            self.frontend.call_later(seconds, self._look_at_end, principal)

    def _look_at_end(self, principal: Principal) -> None:
        if self.principal is principal and not self.machine.is_closed:
            self.close_connection(ReplyCode.CONNECTION_FORCED, "the credentials have expired")

    # -- channels ------------------------------------------------------------------------------------------------

    def _channel_closed(self, event: ChannelClosed) -> None:
        channel = self.channels.pop(event.channel, None)
        if channel is not None:
            channel.close()
            if channel.publishing.is_under_way:
                self.going(self.frontend.tasks.spawn(channel.publishing.settled()))
        if not event.is_clients:
            return
        if self._going:
            self.frontend.tasks.spawn(self._close_channel_ok(event.channel))
        else:
            self.machine.close_channel_ok(event.channel)

    async def _close_channel_ok(self, number: int) -> None:
        """When the client hears of the channel's end, what it published is in its queues, and queues that go with their
        last consumer are gone."""
        await self._gone()
        self.machine.close_channel_ok(number)
        self.flush()

    def going(self, work: asyncio.Task[None]) -> None:
        """This has to be done before the client hears of an end."""
        self._going.add(work)
        work.add_done_callback(self._going.discard)

    async def _gone(self) -> None:
        if self._going:
            await asyncio.wait(tuple(self._going))

    def close_connection(self, code: ReplyCode, text: str, class_id: int = 0, method_id: int = 0) -> None:
        """End the connection from the server's side."""
        self._handle(self.machine.close(code, text, class_id, method_id))
        self.flush()

    # -- what is asked of it -------------------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        return "" if self.driver is None else self.driver.peer

    @property
    def user(self) -> str:
        return "" if self.principal is None else self.principal.name

    @property
    def login_name(self) -> str:
        """The name that the client logged in with: while no user is defined any is taken."""
        return self._name

    def flush(self) -> None:
        if self.driver is not None:
            self.driver.flush()

    def pause_reading(self) -> None:
        if self.driver is not None:
            self.driver.pause_reading()

    def block(self, reason: str) -> None:
        """Tell a client that publishes to wait, and read it no more."""
        if not self.is_blocked and self.has_published and self.driver is not None:
            self.is_blocked = True
            self.machine.block(reason)
            self.flush()
            self.driver.pause_reading()

    def unblock(self) -> None:
        if self.is_blocked:
            self.is_blocked = False
            self.machine.unblock()
            self.flush()
            self.resume_reading()

    def resume_reading(self) -> None:
        """Read on, unless one of the channels still has too much to do, or the store is full."""
        is_held = self.is_blocked or any(channel.is_full for channel in self.channels.values())
        if self.driver is not None and not is_held:
            self.driver.resume_reading()

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
            self.frontend.tasks.spawn(self._close_ok())

    async def _close_ok(self) -> None:
        """What it had for itself is gone when the client hears of the end."""
        await self._gone()
        if self._leaving is not None:
            await asyncio.wait((self._leaving,))
        self.machine.close_ok()
        if self.driver is not None:
            self.driver.finish()

    def _end(self) -> None:
        """Give everything back: once."""
        if self._is_ended:
            return
        self._is_ended = True
        for channel in tuple(self.channels.values()):
            channel.close()
            if channel.publishing.is_under_way:
                self.going(self.frontend.tasks.spawn(channel.publishing.settled()))
        self.channels.clear()
        self._leaving = self.frontend.ended(self)
