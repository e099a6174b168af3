"""Queues: list, show, declare, delete."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.field_value import text_of
from entrepot.domain.queues.arguments import DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY
from entrepot.domain.queues.declaration import QueueDeclaration, declared_queue, queue_text
from entrepot.gateway.amqp.virtual_hosts import needs
from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import check_owner
from entrepot.gateway.operations.local_views.amqp_connections import CONSUMERS
from entrepot.gateway.operations.rabbitmq.everywhere import all_rows, name_missing
from entrepot.gateway.operations.rabbitmq.listing import (
    ColumnsAsked,
    Flag,
    ListingAsked,
    Row,
    Rows,
    chosen,
    listing,
    rows_of,
)
from entrepot.gateway.operations.rabbitmq.message_stats import MessageRates, totals_of_queue, totals_of_queues
from entrepot.gateway.operations.rabbitmq.queue_figures import QueueFigures
from entrepot.gateway.operations.rabbitmq.rows import QueueRow, QueueRows
from entrepot.gateway.operations.rabbitmq.server import DECLARE, DELETE, GET, LIST, arguments_of, missing, new_noun
from entrepot.gateway.operations.rabbitmq.shapes import queue_shape
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.shapes import Declared, LenientBody, PlainName, Query

if TYPE_CHECKING:
    from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq
    from entrepot.gateway.peers.peers import Peers

QUEUES: Final = new_noun("/queues")


class QueueBody(LenientBody, frozen=True):
    """Declaration of a queue."""

    durable: bool = False
    auto_delete: bool = False
    arguments: Any = None

    def declaration(self, name: str, vhost: Vhost) -> QueueDeclaration:
        """Return the declaration.  Raises BAD_REQUEST, PRECONDITION_FAILED."""
        arguments = arguments_of(self.arguments)
        return declared_queue(name, vhost.name, durable=self.durable, auto_delete=self.auto_delete, arguments=arguments)


class QueueDeletion(Query, frozen=True):
    if_unused: Annotated[Flag, Meta(description="Only where nobody uses it")] = msgspec.field(
        default=None, name="if-unused"
    )
    if_empty: Annotated[Flag, Meta(description="Only where nothing is in it")] = msgspec.field(
        default=None, name="if-empty"
    )


class Queues:
    """The operations of queues."""

    def __init__(self, rabbitmq: RabbitMq, peers: Peers) -> None:
        self._rabbitmq, self._peers = rabbitmq, peers
        self._rates = MessageRates(lambda: totals_of_queues(rabbitmq.virtual_hosts), monotonic)

    @QUEUES.get("", "listQueues", "List all queues", LIST)
    async def listed(self, query: ListingAsked) -> QueueRows:
        return await self._listed(query, self._rabbitmq.vhosts)

    @QUEUES.get("/{vhost}", "listVhostQueues", "List the queues of a virtual host", LIST)
    async def listed_of(self, vhost: PlainName, query: ListingAsked) -> QueueRows:
        return await self._listed(query, [self._rabbitmq.vhost(vhost)])

    @QUEUES.get("/{vhost}/{name}", "getQueue", "Get a queue with its consumers", GET)
    async def show(self, vhost: PlainName, name: PlainName, query: ColumnsAsked, asked: Asked) -> QueueRow:
        found = self._rabbitmq.vhost(vhost)
        queue = self._rabbitmq.queue(found, name)
        self._rates.look()
        row = self._row_of(queue, found)
        await self._add_figures([row])
        if "messages" not in row:
            raise missing("queue", queue.name, found)
        rows, gathered = await all_rows(self._peers, CONSUMERS, {"vhost": found.name, "queue": queue.name})
        name_missing(asked, gathered)
        consumers = [{name: value for name, value in each.items() if name != "gateway"} for each in rows]
        row = {name: value for name, value in row.items() if name != "message_stats" or value is not None}
        return chosen(query, {**row, "consumer_details": consumers})

    @QUEUES.put(
        "/{vhost}/{name}",
        "declareQueue",
        "Declare a queue",
        DECLARE,
        change="queue declared",
        example={"durable": True, "auto_delete": False, "arguments": {"x-max-length": 1000}},
    )
    async def put(self, vhost: PlainName, name: PlainName, body: QueueBody, asked: Asked) -> Declared:
        found, arguments = self._rabbitmq.vhost(vhost), arguments_of(body.arguments)
        letters = (text_of(arguments.get(each)) for each in (DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY))
        self._rabbitmq.check(asked.principal, needs.to_send_dead_letters(found.namespace, name, *letters))
        _, is_new = await self._rabbitmq.virtual_hosts.declare_queue(found, body.declaration(name, found))
        return Declared(is_new)

    @QUEUES.delete("/{vhost}/{name}", "deleteQueue", "Delete a queue", DELETE)
    async def delete(self, vhost: PlainName, name: PlainName, query: QueueDeletion) -> None:
        virtual_hosts, found = self._rabbitmq.virtual_hosts, self._rabbitmq.vhost(vhost)
        queue = self._rabbitmq.queue(found, name)
        check_owner(queue, "", found)
        of = queue_text(queue.name, found.name)
        if query.if_unused == "true" and virtual_hosts.consumers_of(queue):
            raise EntrepotError(Code.PRECONDITION_FAILED, f"{of} in use")
        if query.if_empty == "true" and await virtual_hosts.counting.ready(queue):
            raise EntrepotError(Code.PRECONDITION_FAILED, f"{of} not empty")
        await virtual_hosts.definitions.delete_queue(found, queue)

    def _row_of(self, queue: Queue, vhost: Vhost) -> Row:
        virtual_hosts = self._rabbitmq.virtual_hosts
        totals = totals_of_queue(virtual_hosts, queue)
        stats = self._rates.stats(queue.topic, totals) if any(totals.values()) else None
        return {**queue_shape(queue, vhost, virtual_hosts.gateway), "message_stats": stats}

    async def _listed(self, query: ListingAsked, vhosts: list[Vhost]) -> Rows:
        self._rates.look()
        queues = [(queue, vhost) for vhost in vhosts for queue in vhost.queues.values()]
        rows = await rows_of(queues, lambda each: self._row_of(*each))
        return await listing(query, rows, self._add_figures)

    async def _add_figures(self, rows: list[Row]) -> None:
        await QueueFigures(self._rabbitmq.virtual_hosts, self._peers).add(rows)
