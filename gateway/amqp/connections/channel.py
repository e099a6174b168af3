"""AmqpChannel: one channel: what comes on it, in order, each thing when the one before it is done.

Publishing, acknowledging and most of consuming is done at once; what asks the store (declaring, getting) holds up what
comes behind it on this channel, and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

import structlog

from domain.errors import EntrepotError
from gateway.amqp.connections.consuming import ChannelConsuming
from gateway.amqp.connections.publishing import ChannelPublishing
from protocols.amqp.connection_events import Acks, Method, Publishes
from protocols.amqp.errors import AmqpError, amqp_error
from protocols.amqp.methods import AmqpMethod
from protocols.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from gateway.amqp.connections.conversation import AmqpConversation

MAX_WAITING: Final = 256
"""Events behind one that asks the store; beyond it the connection is read no more for a while."""
Work = Awaitable[None] | None

log = structlog.get_logger(__name__)


class AmqpChannel:
    """See the module."""

    __slots__ = (
        "__weakref__",
        "_is_busy",
        "_notices",
        "_waiting",
        "consuming",
        "conversation",
        "is_open",
        "last_queue",
        "number",
        "publishing",
    )

    def __init__(self, conversation: AmqpConversation, number: int) -> None:
        self.conversation = conversation
        self.number = number
        self.is_open = True
        self.last_queue = ""
        """The queue that was declared last: what an empty name stands for."""
        self.publishing = ChannelPublishing(self)
        self.consuming = ChannelConsuming(self)
        self._waiting: deque[Publishes | Acks | Method] = deque()
        self._notices: list[AmqpMethod] = []
        """What the server says by itself, behind the answer to what is being done: at most one for each consumer."""
        self._is_busy = False

    @property
    def is_full(self) -> bool:
        """Whether no more may be read for it."""
        return len(self._waiting) >= MAX_WAITING or self.publishing.is_paused

    def take(self, event: Publishes | Acks | Method) -> None:
        """Something came on the channel."""
        if self._is_busy:
            self._waiting.append(event)
            if self.is_full:
                self.conversation.pause_reading()
        else:
            self._handle(event)

    def _handle(self, event: Publishes | Acks | Method) -> None:
        method = event.method if isinstance(event, Method) else None
        try:
            work: Work
            if isinstance(event, Publishes):
                work = self.publishing.take(event.publishes)
            elif isinstance(event, Acks):
                work = self.consuming.settle(event.settlements)
            else:
                handler = self.conversation.frontend.handlers[type(event.method)]
                work = handler(self, event.method)
        except (AmqpError, EntrepotError) as error:
            self.fail(error, method)
            return
        if work is not None:
            self._is_busy = True
            self.conversation.frontend.tasks.spawn(self._finish(work, method))

    async def _finish(self, work: Awaitable[None], method: AmqpMethod | None) -> None:
        try:
            await work
        except (AmqpError, EntrepotError) as error:
            self.fail(error, method)
        except Exception as fault:
            log.exception("a method failed", seldom=type(fault).__name__, method="" if method is None else method.name)
            self.fail(AmqpError(ReplyCode.INTERNAL_ERROR, "the server could not do that"), method)
        self._is_busy = False
        if self.is_open:
            for notice in self._notices:
                self.send(notice)
        self._notices.clear()
        was_full = self.is_full
        while self._waiting and not self._is_busy and self.is_open:
            self._handle(self._waiting.popleft())
        if was_full:
            self.conversation.resume_reading()
        self.conversation.flush()

    def send(self, method: AmqpMethod) -> None:
        """Answer; it goes out at the end of what is being done."""
        self.conversation.machine.send(self.number, method)

    def notify(self, method: AmqpMethod) -> None:
        """Say what no method asked for: who deletes a queue hears of that first, and then of its consumers."""
        if self._is_busy:
            self._notices.append(method)
        else:
            self.send(method)
            self.conversation.flush()

    def fail(self, error: AmqpError | EntrepotError, method: AmqpMethod | None = None) -> None:
        """Close the channel, or the connection where the error is that one's."""
        class_id, method_id = (0, 0) if method is None else (method.class_id, method.method_id)
        if isinstance(error, EntrepotError):
            error = amqp_error(error.code, error.message, class_id, method_id)
        elif not error.class_id:
            error.class_id, error.method_id = class_id, method_id
        conversation = self.conversation
        if not self.is_open:
            return
        if error.is_connections:
            conversation.close_connection(error.code, error.text, error.class_id, error.method_id)
            return
        kind, peer = f"amqp {error.code}", conversation.peer
        log.info("channel closed by the server", seldom=kind, peer=peer, channel=self.number, text=error.text)
        conversation.channels.pop(self.number, None)
        self.close()
        conversation.machine.close_channel(self.number, error)
        conversation.flush()

    def close(self) -> None:
        """Give back what its consumers hold."""
        self.is_open = False
        self._waiting.clear()
        self.publishing.roll_back()
        self.consuming.close()
