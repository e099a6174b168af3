"""Queues: list, show, declare, delete."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any, Final

from fastapi import Request, Response

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.field_value import text_of
from entrepot.domain.queues.arguments import DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY
from entrepot.domain.queues.declaration import QueueDeclaration, declared_queue, queue_text
from entrepot.gateway.amqp.virtual_hosts import needs
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import check_owner
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.everywhere import all_rows, with_missing
from entrepot.gateway.http.rabbitmq.api import (
    ArgumentsBody,
    created,
    missing,
    new_router,
    nothing,
    queue_in_path,
    vhost_in_path,
    virtual_hosts_of,
)
from entrepot.gateway.http.rabbitmq.listing import Row, listing, rows_of
from entrepot.gateway.http.rabbitmq.message_stats import MessageRates, totals_of_queue, totals_of_queues
from entrepot.gateway.http.rabbitmq.rights import DECLARE, DELETE, GET, LIST, check
from entrepot.gateway.http.rabbitmq.shapes import queue_shape
from entrepot.gateway.http.routes import Router
from entrepot.gateway.operations.local_views.amqp_connections import CONSUMERS

COUNTED_AT_ONCE: Final = 64
"""Number of queues that the store is asked about concurrently."""


class QueueBody(ArgumentsBody):
    """Declaration of a queue."""

    durable: bool = True
    auto_delete: bool = False

    def declaration(self, name: str, vhost: Vhost) -> QueueDeclaration:
        return declared_queue(
            name, vhost.name, durable=self.durable, auto_delete=self.auto_delete, arguments=self.arguments
        )


def queue_routes(context: HttpContext) -> Router:
    router = new_router()
    _add_reading(router, context)

    @router.put("/queues/{vhost}/{name}", DECLARE, change="queue declared", summary="Declare a queue")
    async def put_queue(request: Request, vhost: str, name: str) -> Response:
        found = vhost_in_path(context, vhost)
        body = await body_of(request, context, QueueBody)
        letters = (text_of(body.arguments.get(each)) for each in (DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY))
        check(context, request, needs.to_send_dead_letters(found.namespace, name_in_path(name), *letters))
        wanted = body.declaration(name_in_path(name), found)
        _, is_new = await virtual_hosts_of(context).declare_queue(found, wanted)
        return created(is_new)

    @router.delete("/queues/{vhost}/{name}", DELETE, summary="Delete a queue", status_code=204)
    async def delete_queue(request: Request, vhost: str, name: str) -> Response:
        virtual_hosts, found = virtual_hosts_of(context), vhost_in_path(context, vhost)
        queue = queue_in_path(context, found, name)
        check_owner(queue, "", found)
        of = queue_text(queue.name, found.name)
        if request.query_params.get("if-unused") == "true" and virtual_hosts.consumers_of(queue):
            raise EntrepotError(Code.PRECONDITION_FAILED, f"{of} in use")
        if request.query_params.get("if-empty") == "true" and await virtual_hosts.counting.ready(queue):
            raise EntrepotError(Code.PRECONDITION_FAILED, f"{of} not empty")
        await virtual_hosts.definitions.delete_queue(found, queue)
        return nothing()

    return router


def _add_reading(router: Router, context: HttpContext) -> None:
    rates = MessageRates(lambda: totals_of_queues(virtual_hosts_of(context)), monotonic)

    def row_of(queue: Queue, vhost: Vhost) -> Row:
        virtual_hosts = virtual_hosts_of(context)
        totals = totals_of_queue(virtual_hosts, queue)
        stats = rates.stats(queue.topic, totals) if any(totals.values()) else None
        return {**queue_shape(queue, vhost, virtual_hosts.gateway), "message_stats": stats}

    async def listed(request: Request, vhosts: list[Vhost]) -> Response:
        rates.look()
        queues = [(queue, vhost) for vhost in vhosts for queue in vhost.queues.values()]
        rows = await rows_of(queues, lambda each: row_of(*each))

        async def complete(shown: list[Row]) -> None:
            await add_counts(context, shown)

        return await listing(request, rows, complete)

    @router.get("/queues", LIST, summary="List all queues")
    async def list_queues(request: Request) -> Response:
        return await listed(request, virtual_hosts_of(context).definitions.vhosts())

    @router.get("/queues/{vhost}", LIST, summary="List the queues of a virtual host")
    async def list_queues_of(request: Request, vhost: str) -> Response:
        return await listed(request, [vhost_in_path(context, vhost)])

    @router.get("/queues/{vhost}/{name}", GET, summary="Get a queue with its consumers")
    async def get_queue(vhost: str, name: str) -> Response:
        found = vhost_in_path(context, vhost)
        queue = queue_in_path(context, found, name)
        rates.look()
        row = row_of(queue, found)
        await add_counts(context, [row])
        if "messages" not in row:
            raise missing("queue", queue.name, found)
        rows, gathered = await all_rows(context, CONSUMERS, {"vhost": found.name, "queue": queue.name})
        consumers = [{name: value for name, value in each.items() if name != "gateway"} for each in rows]
        row = {name: value for name, value in row.items() if name != "message_stats" or value is not None}
        return with_missing(json_answer({**row, "consumer_details": consumers}), gathered)


async def add_counts(context: HttpContext, rows: list[Row]) -> None:
    """Add message counts from the store to rows, except those of deleted queues."""
    virtual_hosts = virtual_hosts_of(context)

    async def add(row: dict[str, Any]) -> None:
        vhost = virtual_hosts.definitions.vhost(row["vhost"])
        queue = None if vhost is None else vhost.queue(row["name"])
        if queue is None:
            return
        ready, held = await virtual_hosts.counting.counts(queue)
        row["messages"], row["messages_ready"], row["messages_unacknowledged"] = ready + held, ready, held
        row["consumers"] = virtual_hosts.consumers_of(queue)

    for start in range(0, len(rows), COUNTED_AT_ONCE):
        await asyncio.gather(*(add(row) for row in rows[start : start + COUNTED_AT_ONCE]))
