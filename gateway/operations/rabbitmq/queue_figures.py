"""Figures of queues: what the store counts, and what the gateways know of the consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from entrepot.gateway.operations.local_views.amqp_connections import CONSUMED_QUEUES
from entrepot.gateway.operations.rabbitmq.everywhere import all_rows
from entrepot.gateway.operations.rabbitmq.listing import Row

if TYPE_CHECKING:
    from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
    from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import VirtualHosts
    from entrepot.gateway.peers.peers import Peers

COUNTED_AT_ONCE: Final = 16
"""Number of queues that the store is asked about concurrently: a store in this process answers for up to a millisecond
each."""
NAMED_AT_ONCE: Final = 500
"""Most queues that gateways are asked about by name; of more, they tell all that have consumers."""


class QueueFigures:
    """The figures of rows of queues, from the store and from all gateways."""

    def __init__(self, virtual_hosts: VirtualHosts, peers: Peers) -> None:
        self._virtual_hosts, self._peers = virtual_hosts, peers

    async def add(self, rows: list[Row]) -> None:
        """Add counts, bytes and consumers to rows, except those of deleted queues.  Unknown figures are left out."""
        await add_counts(self._virtual_hosts, rows)
        await _each(self._virtual_hosts, rows, self._add_bytes)
        await self._add_consumers([row for row in rows if "messages" in row and row["type"] != "stream"])

    async def _add_bytes(self, row: Row, queue: Queue) -> None:
        found = await self._virtual_hosts.counting.size(queue)
        if found is not None:
            row["message_bytes"] = found.waiting + found.in_flight
            row["message_bytes_ready"], row["message_bytes_unacknowledged"] = found.waiting, found.in_flight

    async def _add_consumers(self, rows: list[Row]) -> None:
        """Add what gateways know.  A queue can deliver at once if it can at one of them."""
        if not any(row["consumers"] for row in rows):
            told: list[Row] = []
        else:
            named = [[row["vhost"], row["name"]] for row in rows] if len(rows) <= NAMED_AT_ONCE else None
            told, _ = await all_rows(self._peers, CONSUMED_QUEUES, {"queues": named})
        by_name: dict[tuple[str, str], list[Row]] = {}
        for each in told:
            by_name.setdefault((each["vhost"], each["name"]), []).append(each)
        for row in rows:
            found = by_name.get((row["vhost"], row["name"]), [])
            for tag in ("single_active_consumer_tag", "exclusive_consumer_tag"):
                row[tag] = next((each[tag] for each in found if each[tag] is not None), None)
            known = [each["capacity_if_ready" if row["messages_ready"] else "capacity"] for each in found]
            if share := [each for each in known if each is not None]:
                row["consumer_capacity"] = row["consumer_utilisation"] = max(share)
            elif not row["consumers"]:
                row["consumer_capacity"] = row["consumer_utilisation"] = 0


async def add_counts(virtual_hosts: VirtualHosts, rows: list[Row]) -> None:
    """Add message counts from the store to rows, except those of deleted queues."""

    async def add(row: Row, queue: Queue) -> None:
        ready, held = await virtual_hosts.counting.counts(queue)
        row["messages"], row["messages_ready"], row["messages_unacknowledged"] = ready + held, ready, held
        row["consumers"] = virtual_hosts.consumers_of(queue)

    await _each(virtual_hosts, rows, add)


async def _each(virtual_hosts: VirtualHosts, rows: list[Row], add: Callable[[Row, Queue], Awaitable[Any]]) -> None:
    """Add to each row of a queue that is there, some at once."""

    async def added(row: Row) -> None:
        vhost = virtual_hosts.definitions.vhost(row["vhost"])
        if vhost is not None and (queue := vhost.queue(row["name"])) is not None:
            await add(row, queue)

    for start in range(0, len(rows), COUNTED_AT_ONCE):
        await asyncio.gather(*(added(row) for row in rows[start : start + COUNTED_AT_ONCE]))
