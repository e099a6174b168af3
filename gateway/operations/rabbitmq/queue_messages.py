"""Messages in a queue: get and purge."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.amqp.virtual_hosts.consumption import Way
from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import check_owner
from entrepot.gateway.messaging.ticket import Ticket, acknowledge_all
from entrepot.gateway.operations.local_views.amqp_shapes import plain
from entrepot.gateway.operations.rabbitmq.listing import Row
from entrepot.gateway.operations.rabbitmq.rows import QueueMessages
from entrepot.gateway.operations.rabbitmq.server import CONSUME, new_noun
from entrepot.gateway.operations.row.shapes import LenientBody, PlainName
from entrepot.protocols.amqp.consumed import origin_of
from entrepot.protocols.amqp.content import ContentHeader

if TYPE_CHECKING:
    from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
    from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import VirtualHosts
    from entrepot.gateway.messaging.incidents import Incidents
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq

MAX_GET: Final = 1000
PART: Final = "rabbitmq api"
AckMode = Literal["ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"]

QUEUE_MESSAGES: Final = new_noun("/queues/{vhost}/{name}")


class GetBody(LenientBody, frozen=True):
    """Number of messages to get, and their settlement.  `truncate`: maximum number of body bytes shown; null: all."""

    count: Annotated[int, Meta(ge=1, le=MAX_GET)] = 1
    ackmode: AckMode = "ack_requeue_true"
    encoding: Literal["auto", "base64"] = "auto"
    truncate: Annotated[int, Meta(ge=0)] | None = None


_EXAMPLE: Final = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 50_000}


class MessagesOfQueues:
    """The operations of messages in queues."""

    def __init__(self, rabbitmq: RabbitMq, incidents: Incidents) -> None:
        self._rabbitmq, self._incidents = rabbitmq, incidents

    @QUEUE_MESSAGES.delete("/contents", "purgeQueue", "Purge a queue", CONSUME, change="queue purged")
    async def purge(self, vhost: PlainName, name: PlainName) -> None:
        await self._rabbitmq.virtual_hosts.counting.purge(self._queue(vhost, name, "purge"))

    @QUEUE_MESSAGES.post(
        "/get",
        "getQueueMessages",
        "Get messages of a queue, mainly to inspect them",
        CONSUME,
        change="queue messages taken",
        example=_EXAMPLE,
    )
    async def get(self, vhost: PlainName, name: PlainName, body: GetBody) -> QueueMessages:
        queue, virtual_hosts = self._queue(vhost, name, "get"), self._rabbitmq.virtual_hosts
        virtual_hosts.used(queue)
        tickets = await _taken(virtual_hosts, queue, body.count)
        sizes = [len(ticket.message.body) for ticket in tickets]
        way = Way.GOT if body.ackmode == "ack_requeue_false" else Way.GOT_ACK
        virtual_hosts.consumption.delivered(queue, sizes, sum(ticket.is_again for ticket in tickets), way)
        await _settled(virtual_hosts, queue, tickets, body.ackmode)
        left = await virtual_hosts.counting.ready(queue)
        if body.ackmode.endswith("requeue_true"):
            left = max(left - len(tickets), 0)  # messages left as of this get
        ahead = len(tickets)
        return self._incidents.encoded(
            PART,
            list(enumerate(tickets)),
            lambda placed: _shape(placed[1], left + ahead - 1 - placed[0], body),
            lambda placed: placed[1].message,
        )

    def _queue(self, vhost: str, name: str, what: str) -> Queue:
        """Return a queue whose messages may be taken.  Raises MissingError, PRECONDITION_FAILED."""
        found = self._rabbitmq.vhost(vhost)
        queue = self._rabbitmq.queue(found, name)
        check_owner(queue, "", found)
        if queue.is_stream:  # nothing is removed from one
            raise EntrepotError(Code.PRECONDITION_FAILED, f"{what} is not supported by stream queue '{queue.name}'")
        return queue


async def _taken(virtual_hosts: VirtualHosts, queue: Queue, count: int) -> list[Ticket]:
    tickets: list[Ticket] = []
    try:
        while len(tickets) < count and (ticket := await virtual_hosts.feeds.of(queue).get()) is not None:
            tickets.append(ticket)
    except BaseException:
        for ticket in tickets:
            ticket.release()
        raise
    return tickets


async def _settled(virtual_hosts: VirtualHosts, queue: Queue, tickets: list[Ticket], mode: AckMode) -> None:
    if not tickets:
        return
    if mode == "ack_requeue_false":
        acknowledge_all(tickets)
        virtual_hosts.consumption.acknowledged([queue] * len(tickets))
    elif mode == "reject_requeue_false":
        await virtual_hosts.dead_letters.reject([(queue, ticket) for ticket in tickets])
    else:
        for ticket in tickets:
            ticket.release()
    for consumer in {ticket.consumer for ticket in tickets}:
        await consumer.settle()


def _shape(ticket: Ticket, message_count: int, body: GetBody) -> Row:
    exchange, routing_key, data = origin_of(ticket.message)
    payload = ticket.message.body
    shown = payload if body.truncate is None else payload[: body.truncate]
    text, encoding = _text(shown, body.encoding)
    return {
        "payload_bytes": len(payload),
        "redelivered": ticket.is_again,
        "exchange": exchange,
        "routing_key": routing_key,
        "message_count": message_count,
        "properties": plain(dict(ContentHeader(data).values())),
        "payload": text,
        "payload_encoding": encoding,
    }


def _text(data: bytes, encoding: str) -> tuple[str, str]:
    if encoding == "auto":
        try:
            return data.decode(), "string"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(data).decode(), "base64"
