"""AmqpChannel: one channel, whose events are handled in order.

Publishing, acknowledging and most of consuming complete at once.  A method that asks the store (declare, get) delays
only the later events of its channel.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

import structlog

from entrepot.domain.errors import EntrepotError
from entrepot.gateway.amqp.connections.channel_output import ChannelOutput
from entrepot.gateway.amqp.connections.client import ClientInfo
from entrepot.gateway.amqp.connections.consuming import ChannelConsuming
from entrepot.gateway.amqp.connections.publishing import ChannelPublishing
from entrepot.gateway.amqp.connections.services import AmqpServices
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
from entrepot.protocols.amqp.connection_events import Acks, Method, Publishes
from entrepot.protocols.amqp.errors import AmqpError, amqp_error
from entrepot.protocols.amqp.method_codec import AmqpMethod
from entrepot.protocols.amqp.reply_codes import ReplyCode

MAX_WAITING: Final = 256
"""Maximum number of events after a method that asks the store; beyond it reading from the connection pauses."""
Handler: TypeAlias = Callable[["AmqpChannel", Any], Awaitable[None] | None]

log = structlog.get_logger(__name__)


class Connection(Protocol):
    """A channel's view of its connection."""

    def close_connection(self, code: ReplyCode, text: str, class_id: int = 0, method_id: int = 0) -> None:
        """End the connection from the server's side."""

    def channel_failed(self, number: int) -> None:
        """Note that the server has closed a channel."""

    def before_end(self, work: asyncio.Task[None]) -> None:
        """Delay close-ok to the client until this task is done."""


class AmqpChannel:
    """One channel.  `handlers`: handler of each method type."""

    __slots__ = (
        "_connection",
        "_handlers",
        "_waiting",
        "client",
        "consuming",
        "last_queue",
        "out",
        "publishing",
        "services",
        "vhost",
    )

    def __init__(
        self,
        services: AmqpServices,
        client: ClientInfo,
        vhost: Vhost,
        out: ChannelOutput,
        handlers: Mapping[type[AmqpMethod], Handler],
        connection: Connection,
    ) -> None:
        self.services, self.client, self.vhost, self.out = services, client, vhost, out
        self._handlers, self._connection = handlers, connection
        self.last_queue = ""
        """Name of the queue declared last, which an empty queue name stands for."""
        self.publishing = ChannelPublishing(services, client, vhost, out)
        self.consuming = ChannelConsuming(services, client, vhost, out, self.publishing, connection.before_end)
        self._waiting: deque[Publishes | Acks | Method] = deque()

    def take(self, event: Publishes | Acks | Method) -> None:
        """Handle an event of the channel."""
        if self.out.is_busy or self._waiting:
            self._waiting.append(event)
            if len(self._waiting) >= MAX_WAITING:
                self.out.driver.pause_reading(self)
        else:
            self._handle(event)

    def _handle(self, event: Publishes | Acks | Method) -> None:
        method = event.method if isinstance(event, Method) else None
        try:
            if isinstance(event, Publishes):
                work = self.publishing.take(event.publishes)
            elif isinstance(event, Acks):
                work = self.consuming.settle(event.settlements)
            else:
                work = self._handlers[type(event.method)](self, event.method)
        except (AmqpError, EntrepotError) as error:
            self.fail(error, method)
            return
        if work is not None:
            self.out.is_busy = True
            self.services.virtual_hosts.tasks.spawn(self._finish(work, method))

    async def _finish(self, work: Awaitable[None], method: AmqpMethod | None) -> None:
        try:
            await work
        except (AmqpError, EntrepotError) as error:
            self.fail(error, method)
        except Exception as fault:
            log.exception("a method failed", seldom=type(fault).__name__, method="" if method is None else method.name)
            self.fail(AmqpError(ReplyCode.INTERNAL_ERROR, "the server could not do that"), method)
        self.out.done()
        self.go_on()
        self.out.driver.flush()

    def go_on(self) -> None:
        """Handle the events that waited, unless a method is running or a large message is leaving."""
        out = self.out
        while self._waiting and out.is_open and not (out.is_busy or out.machine.is_slicing):
            self._handle(self._waiting.popleft())
        if len(self._waiting) < MAX_WAITING:
            out.driver.resume_reading(self)

    def fail(self, error: AmqpError | EntrepotError, method: AmqpMethod | None = None) -> None:
        """Close the channel, or the connection where the error is a connection error."""
        class_id, method_id = (0, 0) if method is None else (method.class_id, method.method_id)
        if isinstance(error, EntrepotError):
            error = amqp_error(error.code, error.message, class_id, method_id)
        elif not error.class_id:
            error.class_id, error.method_id = class_id, method_id
        out = self.out
        if not out.is_open:
            return
        if error.is_connections:
            self._connection.close_connection(error.code, error.text, error.class_id, error.method_id)
            return
        kind, peer = f"amqp {error.code}", out.driver.peer
        log.info("channel closed by the server", seldom=kind, peer=peer, channel=out.number, text=error.text)
        self.close()
        out.machine.close_channel(out.number, error)
        self._connection.channel_failed(out.number)
        out.driver.flush()

    def close(self) -> None:
        """Requeue the consumers' unsettled deliveries.  Publishes under way continue."""
        self.out.is_open = False
        self._waiting.clear()
        self.out.driver.resume_reading(self)
        self.publishing.roll_back()
        self.consuming.close()
