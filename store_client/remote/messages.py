"""RemoteMessages: appending, reading by offset and tails, each at the broker that has the message queue."""

from __future__ import annotations

from collections.abc import Callable

from domain.errors import EntrepotError
from domain.expression.filter import FilterExpression
from domain.message import StoredMessage
from domain.ports import Pulled
from domain.position import Position
from domain.shard import local_queue
from domain.topic import QueueBounds
from protocols.remoting import operations as wire
from protocols.remoting.records import RecordRun, decode_run
from store_client.remote.appending import Appending
from store_client.remote.cluster import Cluster
from store_client.remote.riding import rides
from store_client.remote.tails import Tails
from store_client.remote.topology import ask_all


class RemoteMessages:
    """`domain.ports.Messages`."""

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

    @rides
    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        client = self._cluster.of_queue(topic, queue_id)
        return await client.ask_messages(wire.READ, topic, local_queue(queue_id), from_offset, max_messages)

    @rides
    async def pull(
        self, topic: str, queue_id: int, from_offset: int, max_messages: int, filter: FilterExpression | None = None
    ) -> Pulled:
        client = self._cluster.of_queue(topic, queue_id)
        found, next_offset, min_offset, max_offset = await client.ask(
            wire.PULL, topic, local_queue(queue_id), from_offset, max_messages, filter
        )
        return Pulled(client.decode(found), next_offset, min_offset, max_offset)

    @rides
    async def matching_offsets(
        self, topic: str, queue_id: int, topic_filter: str, from_offset: int, limit: int
    ) -> tuple[list[int], int]:
        client = self._cluster.of_queue(topic, queue_id)
        found: tuple[list[int], int] = await client.ask(
            wire.MATCHING_OFFSETS, topic, local_queue(queue_id), topic_filter, from_offset, limit
        )
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
        """The records from an offset up to another that the filter wants (`protocols.remoting.records`)."""
        client = self._cluster.of_queue(topic, queue_id)
        arguments = (topic, local_queue(queue_id), from_offset, to_offset, max_bytes, filter)
        return decode_run(await client.ask(wire.RECORDS, *arguments))

    async def bytes_between(self, topic: str, queue_id: int, from_offset: int, to_offset: int) -> int:
        """About how many bytes of the log they have."""
        client = self._cluster.of_queue(topic, queue_id)
        found: int = await client.ask(wire.BYTES_BETWEEN, topic, local_queue(queue_id), from_offset, to_offset)
        return found

    @rides
    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        client = self._cluster.of_queue(topic, queue_id)
        offset: int = await client.ask(wire.OFFSET_AT, topic, local_queue(queue_id), position)
        return offset

    @rides
    async def bounds(self, topic: str) -> list[QueueBounds]:
        found: list[QueueBounds] = []
        answers = await ask_all(self._cluster.of_topic(topic), lambda c: c.ask(wire.BOUNDS, topic))
        refusals = [answer for _, answer in answers if isinstance(answer, EntrepotError)]
        if len(refusals) == len(answers):
            raise refusals[0]
        for client, told in answers:
            if not isinstance(told, EntrepotError):
                found += client.world_bounds(told)
        return found
