"""RemoteMessages: append, read by offset and tails, each at the broker that has the message queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from entrepot.domain.broker_of_queue import local_queue
from entrepot.domain.errors import AWAY, EntrepotError
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Pulled
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.topic import QueueBounds
from entrepot.protocols.remoting import operations as wire
from entrepot.protocols.remoting.records import RecordRun, decode_run
from entrepot.store_client.remote.appending import Appending
from entrepot.store_client.remote.asking import Asking, ask_all
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.riding import rides
from entrepot.store_client.remote.tails import Tails


class RemoteMessages:
    """Implements `domain.ports.Messages`."""

    def __init__(self, cluster: Cluster, appending: Appending, tails: Tails) -> None:
        self._cluster = cluster
        self.append = appending.append
        self.tail = tails.tail

    @property
    def backlogged(self) -> bool:
        return any(client.link.is_congested for client in self._cluster.clients.values())

    def when_relieved(self, callback: Callable[[], None]) -> None:
        for client in self._cluster.clients.values():
            if client.link.is_congested:
                client.link.when_relieved(lambda: self.when_relieved(callback))
                return
        callback()

    async def _from(
        self, topic: str, queue_id: int, operation: wire.Operation, *arguments: Any, may_lag: bool
    ) -> tuple[Asking, Any]:
        """Return the source and its answer about a queue.  `may_lag`: a slave may answer while the master is there."""
        client = self._cluster.of_queue(topic, queue_id)
        slave = self._cluster.slaves.nearest(client) if may_lag else self._cluster.slaves.instead_of(client)
        if slave is not None and (self._cluster.slaves.may_know(topic) or not client.is_ready):
            try:
                return slave, await slave.ask(operation, topic, local_queue(queue_id), *arguments)
            except EntrepotError as refusal:
                if not client.is_ready and refusal.code not in AWAY:
                    raise
        return client, await client.ask(operation, topic, local_queue(queue_id), *arguments)

    @rides
    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        source, found = await self._from(topic, queue_id, wire.READ, from_offset, max_messages, may_lag=True)
        return source.decode(found)

    @rides
    async def pull(
        self, topic: str, queue_id: int, from_offset: int, max_messages: int, filter: FilterExpression | None = None
    ) -> Pulled:
        source, (found, next_offset, min_offset, max_offset) = await self._from(
            topic, queue_id, wire.PULL, from_offset, max_messages, filter, may_lag=True
        )
        return Pulled(source.decode(found), next_offset, min_offset, max_offset)

    @rides
    async def matching_offsets(
        self, topic: str, queue_id: int, topic_filter: str, from_offset: int, limit: int
    ) -> tuple[list[int], int]:
        found: tuple[list[int], int]
        arguments = (topic_filter, from_offset, limit)
        _, found = await self._from(topic, queue_id, wire.MATCHING_OFFSETS, *arguments, may_lag=True)
        return found

    async def records(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        max_bytes: int,
        filter: FilterExpression | None = None,
    ) -> RecordRun:
        """Return the records between two offsets that match the filter (`protocols.remoting.records`).  Raises
        UNAVAILABLE if only a slave without any of them is there."""
        arguments = (from_offset, to_offset, max_bytes, filter)
        source, found = await self._from(topic, queue_id, wire.RECORDS, *arguments, may_lag=True)
        run = decode_run(found)
        if source.may_lag and run.next_offset == from_offset < to_offset:
            client = self._cluster.of_queue(topic, queue_id)
            run = decode_run(await client.ask(wire.RECORDS, topic, local_queue(queue_id), *arguments))
        return run

    async def bytes_between(self, topic: str, queue_id: int, from_offset: int, to_offset: int) -> int:
        """Return the approximate log size, in bytes, of the messages between two offsets."""
        found: int
        _, found = await self._from(topic, queue_id, wire.BYTES_BETWEEN, from_offset, to_offset, may_lag=False)
        return found

    @rides
    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        offset: int
        source, offset = await self._from(topic, queue_id, wire.OFFSET_AT, position, may_lag=False)
        if source.may_lag and position.kind is not PositionKind.EARLIEST:
            bounds: list[QueueBounds] = await source.ask(wire.BOUNDS, topic)
            if all(offset >= each.max_offset for each in bounds if each.queue_id == local_queue(queue_id)):
                self._cluster.of_queue(topic, queue_id).check_ready()  # the master may have more
        return offset

    @rides
    async def bounds(self, topic: str) -> list[QueueBounds]:
        found: list[QueueBounds] = []
        answers = await ask_all(self._cluster.readers_of_topic(topic), lambda c: c.ask(wire.BOUNDS, topic))
        refusals = [answer for _, answer in answers if isinstance(answer, EntrepotError)]
        if len(refusals) == len(answers):
            raise refusals[0]
        for client, told in answers:
            if not isinstance(told, EntrepotError):
                found += client.world_bounds(told)
        return found
