"""Messages in a queue: get and purge."""

from __future__ import annotations

import base64
from typing import Any, Final, Literal

from fastapi import Request, Response
from pydantic import Field

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import VirtualHosts, check_owner
from entrepot.gateway.http.bodies import body_of, json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rabbitmq.api import (
    LenientBody,
    new_router,
    nothing,
    queue_in_path,
    vhost_in_path,
    virtual_hosts_of,
)
from entrepot.gateway.http.rabbitmq.rights import CONSUME
from entrepot.gateway.http.routes import Router
from entrepot.gateway.messaging.ticket import Ticket, acknowledge_all
from entrepot.gateway.operations.local_views.amqp_shapes import plain
from entrepot.protocols.amqp.consumed import origin_of
from entrepot.protocols.amqp.content import ContentHeader

MAX_GET: Final = 1000
PART: Final = "rabbitmq api"
AckMode = Literal["ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"]


class GetBody(LenientBody):
    """Number of messages to get, and their settlement.  `truncate`: maximum number of body bytes shown; null: all."""

    count: int = Field(1, ge=1, le=MAX_GET)
    ackmode: AckMode = "ack_requeue_true"
    encoding: Literal["auto", "base64"] = "auto"
    truncate: int | None = Field(None, ge=0)


def queue_message_routes(context: HttpContext) -> Router:
    router = new_router()

    @router.delete(
        "/queues/{vhost}/{name}/contents", CONSUME, change="queue purged", summary="Purge a queue", status_code=204
    )
    async def purge_queue(vhost: str, name: str) -> Response:
        found = vhost_in_path(context, vhost)
        queue = queue_in_path(context, found, name)
        check_owner(queue, "", found)
        _check_no_stream(queue, "purge")
        await virtual_hosts_of(context).counting.purge(queue)
        return nothing()

    @router.post(
        "/queues/{vhost}/{name}/get",
        CONSUME,
        change="queue messages taken",
        summary="Get messages of a queue, mainly to inspect them",
    )
    async def get_messages(request: Request, vhost: str, name: str) -> Response:
        virtual_hosts, found = virtual_hosts_of(context), vhost_in_path(context, vhost)
        queue = queue_in_path(context, found, name)
        check_owner(queue, "", found)
        _check_no_stream(queue, "get")
        body = await body_of(request, context, GetBody)
        virtual_hosts.used(queue)
        tickets = await _taken(virtual_hosts, queue, body.count)
        sizes = [len(ticket.message.body) for ticket in tickets]
        virtual_hosts.consumption.delivered(queue, sizes, sum(ticket.is_again for ticket in tickets))
        await _settled(virtual_hosts, queue, tickets, body.ackmode)
        left = await virtual_hosts.counting.ready(queue)
        if body.ackmode.endswith("requeue_true"):
            left = max(left - len(tickets), 0)  # messages left as of this get
        ahead = len(tickets)
        shapes = context.sender.incidents.encoded(
            PART,
            list(enumerate(tickets)),
            lambda placed: _shape(placed[1], left + ahead - 1 - placed[0], body),
            lambda placed: placed[1].message,
        )
        return json_answer(shapes)

    return router


def _check_no_stream(queue: Queue, what: str) -> None:
    """Raise PRECONDITION_FAILED for a stream, from which nothing is removed."""
    if queue.is_stream:
        raise EntrepotError(Code.PRECONDITION_FAILED, f"{what} is not supported by stream queue '{queue.name}'")


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


def _shape(ticket: Ticket, message_count: int, body: GetBody) -> dict[str, Any]:
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
