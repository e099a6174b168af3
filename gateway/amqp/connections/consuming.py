"""ChannelConsuming: one channel's consumers, and its unsettled deliveries to them and to basic.get.

Invariant: a delivery tag stands for one message until it is settled, once.  Messages unsettled when the channel ends
return to their place in the queue.
"""

from __future__ import annotations

from asyncio import Task
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from entrepot.domain.callbacks import hand_over
from entrepot.domain.message import StoredMessage, place_of_message
from entrepot.domain.position import Position
from entrepot.gateway.amqp.connections.channel_output import ChannelOutput
from entrepot.gateway.amqp.connections.client import ClientInfo
from entrepot.gateway.amqp.connections.publishing import ChannelPublishing
from entrepot.gateway.amqp.connections.services import AmqpServices
from entrepot.gateway.amqp.connections.streams import StreamTicket, stream_start
from entrepot.gateway.amqp.connections.templates import Held, template_for
from entrepot.gateway.amqp.virtual_hosts.consumption import Way
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.messaging.messages_that_fit import MessagesThatFit
from entrepot.gateway.messaging.odd_messages import set_aside
from entrepot.gateway.messaging.ticket import Ticket, acknowledge_all
from entrepot.protocols.amqp.connection_events import ACK, Settlement
from entrepot.protocols.amqp.delivery import ContentTemplate
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.methods_basic import BasicCancel
from entrepot.protocols.amqp.reply_codes import ReplyCode
from entrepot.protocols.amqp.value_space import USUAL_FRAME_MAX

PART: Final = "amqp"
TOO_NARROW: Final = "the properties of the message do not fit a frame of the client"
NO_ACK_BATCH: Final = 200
"""Maximum number of messages in one delivery to a consumer without acknowledgements, while the socket accepts them."""


class Handed:
    """The delivery of some tickets, which is their `member`.  `since`: its time, in seconds of the loop's clock."""

    __slots__ = ("consumer", "queue", "since")

    def __init__(self, queue: Queue, consumer: Consumer | None, since: float) -> None:
        self.queue, self.consumer, self.since = queue, consumer, since


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

    @property
    def is_narrow(self) -> bool:
        """True if its frames are smaller than those of most clients."""
        return self._consuming.is_narrow

    def can_take(self, ticket: Ticket) -> bool:
        """True if the message's properties fit its frames."""
        return self._consuming.can_take(self.queue, ticket)

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

    @property
    def is_narrow(self) -> bool:
        """True if there may be messages whose properties do not fit a frame of this client."""
        return self._out.machine.frame_max < max(USUAL_FRAME_MAX, self.services.settings.frame_max_bytes)

    def can_take(self, queue: Queue, ticket: Held) -> bool:
        """True if a message's properties fit the client's frames; also for an odd one, which a delivery sets aside."""
        try:
            return self._template(queue, ticket).fits(self._out.machine.frame_max)
        except Exception:  # noqa: BLE001
            return True

    def deliver(self, consumer: Consumer, tickets: Sequence[Held]) -> None:
        """Send messages to a consumer; an odd one is set aside, and the others go on in order."""
        if consumer.queue.is_stream and self.is_narrow:
            tickets = [ticket for ticket in tickets if self._fits_or_is_noted(consumer, ticket)]
        encoded = self._encoded(consumer.queue, tickets)
        for (ticket, _), fault in hand_over(encoded, partial(self._send, consumer)):
            self._set_aside(ticket, fault)
        self._out.driver.flush()

    def _send(self, consumer: Consumer, encoded: list[tuple[Held, ContentTemplate]]) -> None:
        if not encoded:
            return
        out, services, queue = self._out, self.services, consumer.queue
        first = self._next_tag
        again = [ticket.is_late or ticket.attempt > 1 for ticket, _ in encoded]  # as `is_again`, without a call each
        run = [(first + place, again[place], template) for place, (_, template) in enumerate(encoded)]
        out.machine.deliver_run(out.number, consumer.tag, run)
        self._next_tag = first + len(encoded)
        sizes = [len(template.body) for _, template in encoded]
        self._fit.note(max(sizes))
        services.virtual_hosts.consumption.delivered(
            queue, sizes, sum(again), Way.CONSUMED if consumer.no_ack else Way.CONSUMED_ACK
        )
        if consumer.no_ack:
            acknowledge_all([ticket for ticket, _ in encoded if isinstance(ticket, Ticket)])
        else:
            self._hold([ticket for ticket, _ in encoded], first, Handed(queue, consumer, services.loop.time()))
            consumer.held += len(encoded)

    def _encoded(self, queue: Queue, tickets: Sequence[Held]) -> list[tuple[Held, ContentTemplate]]:
        """Encode messages; odd ones are set aside."""
        encoded: list[tuple[Held, ContentTemplate]] = []
        queue_type, unsaid = queue.declaration.arguments.queue_type, self.services.incidents.unsaid

        def encode(some: list[Held]) -> None:
            encoded.extend([(ticket, template_for(ticket, queue_type, unsaid)) for ticket in some])

        for ticket, fault in hand_over(list(tickets), encode):
            self._set_aside(ticket, fault)
        return encoded

    def _fits_or_is_noted(self, consumer: Consumer, ticket: Held) -> bool:
        """True if a stream's message fits; else its place is noted, and the stream goes on."""
        if self.can_take(consumer.queue, ticket):
            return True
        place, client = place_of_message(ticket.message), self._client.login_name
        self.services.incidents.note(PART, Outcome.PASSED_OVER, TOO_NARROW, place=place, client=client)
        return False

    def _set_aside(self, ticket: Held, fault: Exception) -> None:
        """Note an odd message; a queue's goes to the group's dead letters, a stream's stays there for others."""
        incidents = self.services.incidents
        if isinstance(ticket, Ticket):
            set_aside(incidents, PART, ticket, fault)
        else:
            incidents.set_aside(PART, ticket.message, fault)

    def _template(self, queue: Queue, ticket: Held) -> ContentTemplate:
        return template_for(ticket, queue.declaration.arguments.queue_type, self.services.incidents.unsaid)

    def _hold(self, tickets: Sequence[Held], first: int, handed: Handed) -> None:
        for ticket in tickets:
            ticket.member = handed
        self.held.update(enumerate(tickets, first))

    def get_ok(self, queue: Queue, ticket: Ticket, message_count: int, *, no_ack: bool) -> bool:
        """Answer basic.get with a message; False for an odd one, which is set aside.  Raises CONTENT_TOO_LARGE for one
        that does not fit the client's frames: it stays in the queue."""
        if self.is_narrow and not self.can_take(queue, ticket):
            ticket.release()
            raise AmqpError(ReplyCode.CONTENT_TOO_LARGE, TOO_NARROW, 60, 70)
        services, tag, is_again = self.services, self._next_tag, ticket.is_again
        try:
            template = self._template(queue, ticket)
            self._out.machine.get_ok(self._out.number, tag, is_again, template, message_count)
        except Exception as fault:  # noqa: BLE001 - the client gets the next one
            self._set_aside(ticket, fault)
            return False
        self._next_tag += 1
        if no_ack:
            ticket.acknowledge()
        else:
            self._hold((ticket,), tag, Handed(queue, None, services.loop.time()))
        services.virtual_hosts.consumption.delivered(
            queue, [len(template.body)], int(is_again), Way.GOT if no_ack else Way.GOT_ACK
        )
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
