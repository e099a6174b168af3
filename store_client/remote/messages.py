"""RemoteMessages: append, read by offset and tails, each at the broker that has the message queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from entrepot.domain.errors import AWAY, EntrepotError
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.topic import QueueBounds
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.records import RecordRun, decode_run
from entrepot.protocols.wire.row import Ask
from entrepot.store_client.remote.appending import Appending
from entrepot.store_client.remote.asking import Asking, ask_all
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.riding import rides
from entrepot.store_client.remote.sent import sent
from entrepot.store_client.remote.tails import Tails

T = TypeVar("T")


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

    async def _from(self, asked: Ask[T], *, may_lag: bool) -> tuple[Asking, T]:
        """Return the source and its answer about a queue.  `may_lag`: a slave may answer while the master is there."""
        topic: str = asked["topic"]
        client = self._cluster.of_queue(topic, asked["queue_id"])
        slave = self._cluster.slaves.nearest(client) if may_lag else self._cluster.slaves.instead_of(client)
        if slave is not None and (self._cluster.slaves.may_know(topic) or not client.is_ready):
            try:
                return slave, await slave.ask(asked)
            except EntrepotError as refusal:
                if not client.is_ready and refusal.code not in AWAY:
                    raise
        return client, await client.ask(asked)

    async def _of_nearest(self, asked: Ask[T]) -> T:
        return (await self._from(asked, may_lag=True))[1]

    async def _of_master(self, asked: Ask[T]) -> T:
        return (await self._from(asked, may_lag=False))[1]

    read = sent(rows.READ, _of_nearest)
    pull = sent(rows.PULL, _of_nearest)
    matching_offsets = sent(rows.MATCHING_OFFSETS, _of_nearest)
    bytes_between = sent(rows.BYTES_BETWEEN, _of_master)

    async def records(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        max_bytes: int,
        filter: FilterExpression | None = None,
    ) -> RecordRun:
        """Return the records between two offsets that match the filter (`protocols.wire.records`).  Raises
        UNAVAILABLE if only a slave without any of them is there."""
        asked = rows.RECORDS.ask(topic, queue_id, from_offset, to_offset, max_bytes, filter)
        source, found = await self._from(asked, may_lag=True)
        run = decode_run(found)
        if source.may_lag and run.next_offset == from_offset < to_offset:
            run = decode_run(await self._cluster.of_queue(topic, queue_id).ask(asked))
        return run

    @rides
    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        source, offset = await self._from(rows.OFFSET_AT.ask(topic, queue_id, position), may_lag=False)
        if source.may_lag and position.kind is not PositionKind.EARLIEST:
            bounds = await source.ask(rows.BOUNDS.ask(topic))
            if all(offset >= each.max_offset for each in bounds if each.queue_id == queue_id):
                self._cluster.of_queue(topic, queue_id).check_ready()  # the master may have more
        return offset

    @rides
    async def bounds(self, topic: str) -> list[QueueBounds]:
        answers = await ask_all(
            self._cluster.readers_of_topic(topic), lambda client: client.ask(rows.BOUNDS.ask(topic))
        )
        refusals = [answer for _, answer in answers if isinstance(answer, EntrepotError)]
        if len(refusals) == len(answers):
            raise refusals[0]
        return [each for _, told in answers if not isinstance(told, EntrepotError) for each in told]
