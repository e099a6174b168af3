"""ChannelConsuming: one channel's consumers, and its unsettled deliveries to them and to basic.get.

Invariant: a delivery tag stands for one message until it is settled, once.  Messages unsettled when the channel ends
return to their place in the queue.
"""

from __future__ import annotations

from asyncio import Task
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final

from entrepot.domain.callbacks import hand_over
from entrepot.domain.message import place_of_message
from entrepot.gateway.amqp.connections.channel_output import ChannelOutput
from entrepot.gateway.amqp.connections.channel_room import ChannelRoom
from entrepot.gateway.amqp.connections.client import ClientInfo
from entrepot.gateway.amqp.connections.consumer import Consumer
from entrepot.gateway.amqp.connections.publishing import ChannelPublishing
from entrepot.gateway.amqp.connections.services import AmqpServices
from entrepot.gateway.amqp.connections.set_apart import Apart, SetApart, tags_up_to
from entrepot.gateway.amqp.connections.templates import Handed, Held, template_for
from entrepot.gateway.amqp.connections.turns import Turns
from entrepot.gateway.amqp.virtual_hosts.consumption import Way
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.messaging.odd_messages import set_aside
from entrepot.gateway.messaging.ticket import Ticket, acknowledge_all
from entrepot.protocols.amqp.connection_events import ACK, REJECT, Settlement
from entrepot.protocols.amqp.delivery import LARGE_BODY, ContentTemplate
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.methods_basic import BasicCancel
from entrepot.protocols.amqp.reply_codes import ReplyCode
from entrepot.protocols.amqp.value_space import USUAL_FRAME_MAX

PART: Final = "amqp"
TOO_NARROW: Final = "the properties of the message do not fit a frame of the client"


class ChannelConsuming:
    """One channel's consumers."""

    __slots__ = (
        "_before_end",
        "_client",
        "_next_tag",
        "_out",
        "_publishing",
        "_turns",
        "_vhost",
        "consumers",
        "held",
        "room",
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
        self.tx = SetApart()
        self.room = ChannelRoom(out, self.held, self.tx, services.settings.max_unacknowledged)
        self._next_tag = 1
        self._turns = Turns(
            services.loop, self.room, self._queues, lambda queue: services.virtual_hosts.feeds.feeding(queue).look()
        )

    # -- credit --------------------------------------------------------------------------------------------------

    def _queues(self) -> Iterator[Queue]:
        return (consumer.queue for consumer in self.consumers.values())

    def has_room(self) -> None:
        """Note that credit may have grown."""
        if self.room.channel_prefetch:
            self._turns.look()
            return
        feeds = self.services.virtual_hosts.feeds
        for queue in set(self._queues()):
            feeds.feeding(queue).look()

    def set_prefetch(self, count: int, *, of_channel: bool) -> None:
        if of_channel:
            self.room.channel_prefetch = count
            self.has_room()
        else:
            self.room.prefetch = count

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
        sizes = [len(template.body) for _, template in encoded]
        largest = max(sizes)
        deliver = out.machine.deliver_run if largest < LARGE_BODY else out.machine.deliver_large_run
        deliver(out.number, consumer.tag, run)
        self._next_tag = first + len(encoded)
        self.room.note(largest)
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
            self.room.gotten += 1
        services.virtual_hosts.consumption.delivered(
            queue, [len(template.body)], int(is_again), Way.GOT if no_ack else Way.GOT_ACK
        )
        return True

    # -- settlements ---------------------------------------------------------------------------------------------

    def settle(self, settlements: Sequence[Settlement]) -> Awaitable[None] | None:
        """Apply a run of acknowledgements and rejections.  Raises PRECONDITION_FAILED for an unknown tag."""
        if not self._publishing.is_tx:
            return self._apply(settlements)
        for method, tag, multiple, requeue in settlements:
            tags = tags_up_to(self.held, method, tag, self._next_tag) if multiple else [tag]
            self.tx.add(
                (method, tag, multiple, requeue), dict(zip(tags, self._take(method, tag, multiple), strict=True))
            )
        return None

    def commit(self) -> Awaitable[None] | None:
        """Settle what the transaction has set apart."""
        settlements, taken = self.tx.end()
        return self._apply(settlements, iter(taken))

    def roll_back(self) -> None:
        self.tx.give_back(self.held)

    def _apply(self, settlements: Sequence[Settlement], apart: Apart = None) -> Awaitable[None] | None:
        acknowledged: list[Held] = []
        dead: list[Held] = []
        try:
            for method, tag, multiple, requeue in settlements:
                found = self._take(method, tag, multiple) if apart is None else next(apart)
                if method == ACK:
                    acknowledged += found
                elif requeue:
                    dead += self._requeue(found, has_failed=method == REJECT)
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
        return [held.pop(each) for each in tags_up_to(held, method, tag, self._next_tag)]

    def _requeue(self, found: list[Held], *, has_failed: bool) -> list[Held]:
        """Requeue messages and return those over the delivery limit, which become dead letters.  `has_failed`: the
        client rejects them."""
        dead: list[Held] = []
        for held in found:
            if self.services.virtual_hosts.dead_letters.is_spent(held.member.queue, held.attempt):
                dead.append(held)
            else:
                _give_back(held, has_failed=has_failed)
        self._settled([held for held in found if held not in dead])
        return dead

    def _settled(self, found: Sequence[Held]) -> None:
        if not found:
            return
        for held in found:
            consumer = held.member.consumer
            if consumer is None:
                self.room.gotten -= 1
            else:
                consumer.held -= 1
        self.has_room()

    def recover(self) -> None:
        """Requeue all unsettled messages (basic.recover)."""
        found = list(self.held.values())
        self.held.clear()
        for held in found:
            _give_back(held, has_failed=False)
        self._settled(found)

    def late(self, now: float, seconds: float) -> list[Handed]:
        """Return who holds a message for longer than this, or than its queue's own timeout: each once."""
        found: dict[int, Handed] = {}
        for held in self.held.values():
            handed = held.member
            own_ms = handed.queue.declaration.arguments.consumer_timeout_ms
            if now - handed.since > (seconds if own_ms is None else own_ms / 1000):
                found.setdefault(id(handed.consumer), handed)
        return list(found.values())

    def cancel_late(self, late: Sequence[Handed]) -> bool:
        """End late consumers alone and requeue what they hold, as RabbitMQ 4.3 does for quorum queues; False where
        that cannot be told to the client."""
        ends = {id(handed.consumer) for handed in late if handed.queue.declaration.arguments.is_quorum}
        consumers = [consumer for consumer in self.consumers.values() if id(consumer) in ends]
        if len(consumers) < len(late) or not self._out.machine.capabilities.consumer_cancel_notify:
            return False
        for consumer in consumers:
            self.cancel(consumer.tag)
            self._out.notify(BasicCancel(consumer.tag, True))
        tags = [tag for tag, held in self.held.items() if id(held.member.consumer) in ends]
        found = [self.held.pop(tag) for tag in tags]
        for held in found:
            held.release()
        self._settled(found)
        return True

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
        self._turns.close()
        for tag in tuple(self.consumers):
            self.cancel(tag)
        self.roll_back()
        held = dict(self.held)
        self.held.clear()
        for each in held.values():
            each.release()
            if each.member.consumer is not None:
                each.member.consumer.held -= 1


def _give_back(held: Held, *, has_failed: bool) -> None:
    """Return a message to its queue, at once or after the delay of the queue's retries."""
    delay_ms = held.member.queue.declaration.arguments.retry_delay_ms(held.attempt, has_failed=has_failed)
    if delay_ms and isinstance(held, Ticket):
        held.consumer.release((held,), delay_ms)
    else:
        held.release()
