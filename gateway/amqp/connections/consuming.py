"""ChannelConsuming: one channel's consumers, and its unsettled deliveries to them and to basic.get.

Invariant: a delivery tag stands for one message until it is settled, once.  Messages unsettled when the channel ends
return to their place in the queue.
"""

from __future__ import annotations

from asyncio import Task
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from entrepot.domain.callbacks import hand_over
from entrepot.domain.message import StoredMessage
from entrepot.domain.position import Position
from entrepot.domain.queues.arguments import QueueType
from entrepot.gateway.amqp.connections.channel_output import ChannelOutput
from entrepot.gateway.amqp.connections.client import ClientInfo
from entrepot.gateway.amqp.connections.publishing import ChannelPublishing
from entrepot.gateway.amqp.connections.services import AmqpServices
from entrepot.gateway.amqp.connections.streams import StreamTicket, stream_start
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.messaging.messages_that_fit import MessagesThatFit
from entrepot.gateway.messaging.odd_messages import set_aside
from entrepot.gateway.messaging.ticket import Ticket, acknowledge_all
from entrepot.protocols.amqp.connection_events import ACK, Settlement
from entrepot.protocols.amqp.consumed import template_of
from entrepot.protocols.amqp.delivery import ContentTemplate
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.field_table import FieldTable
from entrepot.protocols.amqp.methods_basic import BasicCancel
from entrepot.protocols.amqp.recorded import template_of_record
from entrepot.protocols.amqp.reply_codes import ReplyCode

PART: Final = "amqp"
NO_ACK_BATCH: Final = 200
"""Maximum number of messages in one delivery to a consumer without acknowledgements, while the socket accepts them."""


class Handed:
    """The delivery of some tickets, which is their `member`.  `since`: its time, in seconds of the loop's clock."""

    __slots__ = ("consumer", "queue", "since")

    def __init__(self, queue: Queue, consumer: Consumer | None, since: float) -> None:
        self.queue, self.consumer, self.since = queue, consumer, since


Held: TypeAlias = Ticket | StreamTicket
"""A delivered and unsettled message; its `member` is its `Handed`."""


class Consumer:
    """A consumer.  `prefetch`: maximum number of its unsettled messages; 0 for no limit of its own."""

    __slots__ = ("_consuming", "arguments", "exclusive", "held", "no_ack", "prefetch", "priority", "queue", "tag")

    def __init__(
        self,
        consuming: ChannelConsuming,
        tag: str,
        queue: Queue,
        *,
        no_ack: bool,
        exclusive: bool,
        priority: int,
        prefetch: int,
        arguments: dict[str, object],
    ) -> None:
        self._consuming = consuming
        self.tag, self.queue = tag, queue
        self.no_ack, self.exclusive, self.priority, self.prefetch = no_ack, exclusive, priority, prefetch
        self.arguments = arguments
        self.held = 0

    @property
    def credit(self) -> int:
        return self._consuming.credit(self)

    @property
    def start(self) -> int | Position | None:
        """The position in a stream from which it reads."""
        return stream_start(self.arguments, self._consuming.services.clock.now_ms())

    def take(self, tickets: Sequence[Ticket]) -> None:
        self._consuming.deliver(self, tickets)

    def take_of_stream(self, messages: Sequence[StoredMessage]) -> None:
        self._consuming.deliver(self, [StreamTicket(message) for message in messages])

    def queue_gone(self) -> None:
        self._consuming.queue_gone(self)


class ChannelConsuming:
    """One channel's consumers.  `prefetch`: the limit of each later consumer; `channel_prefetch`: of all of them
    together."""

    __slots__ = (
        "_before_end",
        "_client",
        "_fit",
        "_next_tag",
        "_out",
        "_publishing",
        "_vhost",
        "channel_prefetch",
        "consumers",
        "held",
        "prefetch",
        "services",
        "tx",
    )

    def __init__(
        self,
        services: AmqpServices,
        client: ClientInfo,
        vhost: Vhost,
        out: ChannelOutput,
        publishing: ChannelPublishing,
        before_end: Callable[[Task[None]], None],
    ) -> None:
        self.services, self._client, self._vhost, self._out = services, client, vhost, out
        self._publishing, self._before_end = publishing, before_end
        self.consumers: dict[str, Consumer] = {}
        self.held: dict[int, Held] = {}
        self.prefetch = self.channel_prefetch = 0
        self.tx: list[Settlement] = []
        """A transaction's settlements, applied at commit."""
        self._next_tag = 1
        self._fit = MessagesThatFit()

    # -- credit --------------------------------------------------------------------------------------------------

    def credit(self, consumer: Consumer) -> int:
        """The number of messages that the consumer can take now."""
        driver = self._out.driver
        if driver.is_congested or not self._out.is_open:
            return 0
        fitting = self._fit.in_bytes(driver.write_limit - driver.unwritten)
        if consumer.no_ack:
            return min(NO_ACK_BATCH, fitting)
        room = self.services.settings.max_unacknowledged - len(self.held)
        if consumer.prefetch:
            room = min(room, consumer.prefetch - consumer.held)
        if self.channel_prefetch:
            room = min(room, self.channel_prefetch - len(self.held))
        return max(min(room, fitting), 0)

    def has_room(self) -> None:
        """Note that credit may have grown."""
        feeds = self.services.virtual_hosts.feeds
        for queue in {consumer.queue for consumer in self.consumers.values()}:
            feeds.feeding(queue).look()

    def set_prefetch(self, count: int, *, of_channel: bool) -> None:
        if of_channel:
            self.channel_prefetch = count
            self.has_room()
        else:
            self.prefetch = count

    # -- deliveries ----------------------------------------------------------------------------------------------

    def deliver(self, consumer: Consumer, tickets: Sequence[Held]) -> None:
        """Send messages to a consumer; an odd one is set aside, and the others go on in order."""
        encoded = self._encoded(consumer.queue, tickets)
        for (ticket, _), fault in hand_over(encoded, partial(self._send, consumer)):
            self._set_aside(ticket, fault)
        self._out.driver.flush()

    def _send(self, consumer: Consumer, encoded: list[tuple[Held, ContentTemplate]]) -> None:
        if not encoded:
            return
        out, services, queue = self._out, self.services, consumer.queue
        first = self._next_tag
        again = [ticket.is_again for ticket, _ in encoded]
        run = [(first + place, again[place], template) for place, (_, template) in enumerate(encoded)]
        out.machine.deliver_run(out.number, consumer.tag, run)
        self._next_tag = first + len(encoded)
        sizes = [len(template.body) for _, template in encoded]
        self._fit.note(max(sizes))
        services.virtual_hosts.consumption.delivered(queue, sizes, sum(again))
        if consumer.no_ack:
            acknowledge_all([ticket for ticket, _ in encoded if isinstance(ticket, Ticket)])
        else:
            self._hold([ticket for ticket, _ in encoded], first, Handed(queue, consumer, services.loop.time()))
            consumer.held += len(encoded)

    def _encoded(self, queue: Queue, tickets: Sequence[Held]) -> list[tuple[Held, ContentTemplate]]:
        """Encode messages; odd ones are set aside."""
        queue_type, encoded = queue.declaration.arguments.queue_type, list[tuple[Held, ContentTemplate]]()

        def encode(some: list[Held]) -> None:
            encoded.extend([(ticket, self._template(ticket, queue_type)) for ticket in some])

        for ticket, fault in hand_over(list(tickets), encode):
            self._set_aside(ticket, fault)
        return encoded

    def _set_aside(self, ticket: Held, fault: Exception) -> None:
        """Note an odd message; a queue's goes to the group's dead letters, a stream's stays there for others."""
        incidents = self.services.incidents
        if isinstance(ticket, Ticket):
            set_aside(incidents, PART, ticket, fault)
        else:
            incidents.set_aside(PART, ticket.message, fault)

    def _template(self, ticket: Held, queue_type: QueueType) -> ContentTemplate:
        """The message in the form of this queue type; its record's own bytes where nothing is added."""
        more: FieldTable | None = None
        if queue_type is QueueType.QUORUM:
            more = {"x-delivery-count": ticket.attempt - 1}
        elif queue_type is QueueType.STREAM:
            more = {"x-stream-offset": ticket.message.queue_offset}
        elif isinstance(ticket, Ticket) and (record := ticket.record) is not None:
            found = template_of_record(record)
            if found is not None:
                return found
        return template_of(ticket.message, more, self.services.incidents.unsaid)

    def _hold(self, tickets: Sequence[Held], first: int, handed: Handed) -> None:
        for ticket in tickets:
            ticket.member = handed
        self.held.update(enumerate(tickets, first))

    def get_ok(self, queue: Queue, ticket: Ticket, message_count: int, *, no_ack: bool) -> bool:
        """Answer basic.get with a message; False for an odd one, which is set aside."""
        services, tag, is_again = self.services, self._next_tag, ticket.is_again
        try:
            template = self._template(ticket, queue.declaration.arguments.queue_type)
            self._out.machine.get_ok(self._out.number, tag, is_again, template, message_count)
        except Exception as fault:  # noqa: BLE001 - the client gets the next one
            self._set_aside(ticket, fault)
            return False
        self._next_tag += 1
        if no_ack:
            ticket.acknowledge()
        else:
            self._hold((ticket,), tag, Handed(queue, None, services.loop.time()))
        services.virtual_hosts.consumption.delivered(queue, [len(template.body)], int(is_again))
        return True

    # -- settlements ---------------------------------------------------------------------------------------------

    def settle(self, settlements: Sequence[Settlement]) -> Awaitable[None] | None:
        """Apply a run of acknowledgements and rejections.  Raises PRECONDITION_FAILED for an unknown tag."""
        if self._publishing.is_tx:
            self.tx += settlements
            return None
        return self.apply(settlements)

    def apply(self, settlements: Sequence[Settlement]) -> Awaitable[None] | None:
        acknowledged: list[Held] = []
        dead: list[Held] = []
        try:
            for method, tag, multiple, requeue in settlements:
                found = self._take(method, tag, multiple)
                if method == ACK:
                    acknowledged += found
                elif requeue:
                    dead += self._requeue(found)
                else:
                    dead += found
        finally:
            acknowledge_all([held for held in acknowledged if isinstance(held, Ticket)])
            if acknowledged:
                consumption = self.services.virtual_hosts.consumption
                consumption.acknowledged([held.member.queue for held in acknowledged])
            self._settled(acknowledged)
            self._settled(dead)
        if dead:
            letters = [(held.member.queue, held) for held in dead if isinstance(held, Ticket)]
            return self.services.virtual_hosts.dead_letters.reject(letters)
        return None

    def _take(self, method: int, tag: int, multiple: bool) -> list[Held]:
        held = self.held
        if not multiple:
            found = held.pop(tag, None)
            if found is None:
                raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"unknown delivery tag {tag}", 60, method)
            return [found]
        if tag and tag not in held and (tag >= self._next_tag or not held or tag < next(iter(held))):
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"unknown delivery tag {tag}", 60, method)
        tags = [each for each in held if not tag or each <= tag]
        return [held.pop(each) for each in tags]

    def _requeue(self, found: list[Held]) -> list[Held]:
        """Requeue messages and return those over the delivery limit, which become dead letters."""
        dead: list[Held] = []
        for held in found:
            limit = held.member.queue.declaration.arguments.attempts_allowed
            if limit is not None and held.attempt > limit:
                dead.append(held)
            else:
                held.release()
        self._settled([held for held in found if held not in dead])
        return dead

    def _settled(self, found: Sequence[Held]) -> None:
        if not found:
            return
        for held in found:
            consumer = held.member.consumer
            if consumer is not None:
                consumer.held -= 1
        self.has_room()

    def recover(self) -> None:
        """Requeue all unsettled messages (basic.recover)."""
        found = list(self.held.values())
        self.held.clear()
        for held in found:
            held.release()
        self._settled(found)

    def holds_too_long(self, now: float, seconds: float) -> bool:
        """True if a message is unsettled for longer than this, or than its queue's own timeout."""
        for held in self.held.values():
            handed = held.member
            own_ms = handed.queue.declaration.arguments.consumer_timeout_ms
            if now - handed.since > (seconds if own_ms is None else own_ms / 1000):
                return True
        return False

    # -- consumers -----------------------------------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        self.consumers[consumer.tag] = consumer
        self.services.virtual_hosts.add(consumer)

    def cancel(self, tag: str) -> Consumer | None:
        """End a consumer; its unsettled messages stay with the channel."""
        consumer = self.consumers.pop(tag, None)
        if consumer is not None:
            if consumer.queue.name == self._publishing.reply_queue:
                self._publishing.reply_queue = ""  # another consumer of replies may come
            virtual_hosts = self.services.virtual_hosts
            virtual_hosts.remove(consumer)
            if consumer.queue.declaration.auto_delete:
                self._before_end(virtual_hosts.tasks.spawn(virtual_hosts.unused(consumer.queue)))
        return consumer

    def queue_gone(self, consumer: Consumer) -> None:
        """Send basic.cancel for a deleted queue, if the client supports it."""
        if self.consumers.pop(consumer.tag, None) is None:
            return
        if self._out.machine.capabilities.consumer_cancel_notify:
            self._out.notify(BasicCancel(consumer.tag, True))

    def ask_again(self) -> None:
        """End consumers of queues that the client may no longer read, after a change of its rights."""
        for consumer in tuple(self.consumers.values()):
            try:
                self.services.access.check_read(self._client, self._vhost, consumer.queue.name)
            except AmqpError:
                self.cancel(consumer.tag)
                self._out.notify(BasicCancel(consumer.tag, True))

    def close(self) -> None:
        """Requeue everything and end all consumers."""
        for tag in tuple(self.consumers):
            self.cancel(tag)
        held, self.held = self.held, {}
        self.tx = []
        for each in held.values():
            each.release()
            if each.member.consumer is not None:
                each.member.consumer.held -= 1
