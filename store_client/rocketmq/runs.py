"""RocketMqRuns: reads of jobs by offset, in runs of records as a store of ours gives them (`protocols.wire.records`).

A job goes on for years from the offsets that it has noted.  Invariant: no queue and no message of it is passed over
because a broker is away, has less than it told before, or serves no reads: the job waits, or ends with UNAVAILABLE.
Offsets that the brokers themselves leave out (compaction, other tags) do not matter.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import structlog

from entrepot.domain.broker_of_queue import broker_number, broker_of_queue
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import AWAY, Code, CorruptedError, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind, MessageFilter, compile_filter
from entrepot.domain.names import check_same_namespace
from entrepot.domain.position import Position
from entrepot.domain.topic import QueueBounds
from entrepot.protocols.rocketmq.properties import is_plain
from entrepot.protocols.rocketmq.remoting.records import Record
from entrepot.protocols.wire.records import ENTRY, RECORD, RecordRun, decode_run, encode_run
from entrepot.store_client.embedded import encoded_record
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.positions import Positions
from entrepot.store_client.rocketmq.reading import MOST_AT_ONCE, PulledRecords, Reading
from entrepot.store_client.rocketmq.routes import Route, RouteQueue
from entrepot.store_client.rocketmq.topology import RocketMqTopology

MAX_PULLS: Final = 512
"""Most pulls of one run, so that a filter that matches little does not hold up its reader."""
USUAL_BYTES: Final = 1024
"""Believed size of a message of which nothing is known."""
_FRAME_BYTES: Final = 91
"""Bytes of a record of RocketMQ without its topic, properties and body."""
_CORRUPTED: Final = bytes(RECORD.itemsize)
_UNSAYABLE: Final = (EntrepotError, struct.error, ValueError)
"""Faults of a message that has no record: of a tag with more than 255 bytes, say."""
log = structlog.get_logger(__name__)


@dataclass
class _Run:
    """The records of a run so far, of at most `max_bytes` together unless it is a single one."""

    max_bytes: int
    entries: list[tuple[int, int, int]] = field(default_factory=list)
    records: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, queue_offset: int, commit_log_offset: int, record: bytes) -> bool:
        """Add a record; False if there is no room."""
        if self.records and self.size + len(record) > self.max_bytes:
            return False
        self.entries.append((queue_offset, commit_log_offset, len(record)))
        self.records.append(record)
        self.size += len(record)
        return True


class RocketMqRuns:
    """Reads for jobs.  Calls raise TOPIC_NOT_FOUND, and UNAVAILABLE as long as a broker is away."""

    def __init__(self, cluster: Cluster, reading: Reading, positions: Positions, topology: RocketMqTopology) -> None:
        self._cluster, self._reading = cluster, reading
        self._positions, self._topology = positions, topology

    # -- routes ------------------------------------------------------------------------------------------------------

    async def _route(self, topic: str, known: Collection[int] = ()) -> Route:
        """Return the route of now.  Raises UNAVAILABLE where name servers have forgotten a broker of `known` queues."""
        try:
            route = await self._cluster.routes.refresh(topic)
        except EntrepotError as refusal:
            if refusal.code is Code.TOPIC_NOT_FOUND:
                await self._check_brokers(topic, known)  # it may be at those alone
            found = self._cluster.routes.known(topic)
            if refusal.code not in AWAY or found is None:
                raise
            route = found  # without name servers known topics go on
        await self._check_brokers(topic, [each for each in known if each not in route.queues])
        return route

    async def _check_brokers(self, topic: str, missing: Collection[int]) -> None:
        """Raise UNAVAILABLE where the cluster lacks the broker of a missing queue now."""
        if absent := {broker_of_queue(each) for each in missing}:
            absent -= {broker_number(name) for name in await self._cluster.masters()}
        if absent:
            text = f"the broker with the number {min(absent)}, which has queues of topic {topic!r}, is away"
            raise EntrepotError(Code.UNAVAILABLE, text)

    async def _queue(self, topic: str, queue_id: int) -> RouteQueue:
        known = self._cluster.routes.known(topic)
        if known is not None and queue_id in known.queues:
            return known.queues[queue_id]
        return (await self._route(topic, (queue_id,))).queue(queue_id)

    def _is_slaves(self, queue: RouteQueue) -> bool:
        """True if a slave is asked for a queue: it may have less than its master had, and serve no reads."""
        return self._cluster.brokers.get(queue.broker) != queue.address

    # -- offsets -----------------------------------------------------------------------------------------------------

    async def bounds(self, topic: str, known: Collection[int] = ()) -> list[QueueBounds]:
        """Return the bounds of each queue: of all of them, or UNAVAILABLE.  `known`: ids of queues that the caller has
        read before.  Name servers forget a broker that is away; these queues tell that it is missing."""
        route = await self._route(topic, known)
        return list(await asyncio.gather(*(self._bounds_of(topic, queue) for queue in route.queues.values())))

    async def _bounds_of(self, topic: str, queue: RouteQueue) -> QueueBounds:
        found = await self._reading.bounds_of(topic, queue)
        return QueueBounds(found.queue_id, found.min_offset, found.max_offset, may_lag=self._is_slaves(queue))

    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        """Return the queue offset of a position; that of a time goes by the time of storing."""
        return await self._reading.offset_of(topic, await self._queue(topic, queue_id), position)

    async def bytes_between(self, topic: str, queue_id: int, from_offset: int, to_offset: int) -> int:
        """Return about how many bytes of the log the messages between two offsets have.  RocketMQ does not tell it: the
        first ones stand for all of them."""
        count = max(to_offset - from_offset, 0)
        try:
            queue = await self._queue(topic, queue_id)
            pulled = await self._reading.pull_records(topic, queue, from_offset, MOST_AT_ONCE)
        except EntrepotError as refusal:
            if refusal.code not in (Code.ILLEGAL_OFFSET, Code.MESSAGE_CORRUPTED):
                raise
            return count * USUAL_BYTES
        sizes = [_size_of(record) for record in pulled.records]
        return count * sum(sizes) // len(sizes) if sizes else count * USUAL_BYTES

    async def move_group(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit these offsets of a group, by queue; it is made if it does not exist."""
        check_same_namespace(topic, group)
        if self._topology.group(group) is None:
            await self._topology.put_group(ConsumerGroup(group))
        for queue_id, offset in offsets.items():
            await self._positions.commit(group, topic, await self._queue(topic, queue_id), offset)

    # -- records -----------------------------------------------------------------------------------------------------

    async def records(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        max_bytes: int,
        filter: FilterExpression | None = None,
    ) -> RecordRun:
        """Return the records between two offsets that match the filter, `max_bytes` of them or fewer, at least one;
        `next_offset` of the run is the offset to go on.  One that cannot be read is there, and fails its check.  Raises
        ILLEGAL_OFFSET, ILLEGAL_FILTER_EXPRESSION."""
        compiled = None if filter is None else compile_filter(filter)
        wanted = None if compiled is None or compiled.accepts_all else compiled
        queue = await self._queue(topic, queue_id)
        run, at, bounds = _Run(max_bytes), from_offset, (0, 0)
        for _ in range(MAX_PULLS):
            try:
                pulled = await self._pulled(topic, queue, at, to_offset, wanted)
            except EntrepotError as refusal:
                if at > from_offset:
                    break  # the next run tells it
                if refusal.code in AWAY:
                    with suppress(EntrepotError):  # the queue may be at another address by now
                        await self._cluster.routes.refresh(topic)
                raise
            bounds = pulled.min_offset, pulled.max_offset
            inside = [each for each in pulled.records if each.queue_offset < to_offset]
            if (left := self._take(run, topic, queue, inside, wanted)) is not None:
                at = left
                break
            is_over = pulled.next_offset <= at
            at = max(at, min(pulled.next_offset, to_offset))
            if is_over or at >= min(to_offset, pulled.max_offset):
                break
        return decode_run(encode_run(np.array(run.entries, ENTRY), b"".join(run.records), (at, *bounds)))

    async def _pulled(
        self, topic: str, queue: RouteQueue, at: int, to_offset: int, wanted: MessageFilter | None
    ) -> PulledRecords:
        """Return what one pull brings.  Of an answer that falls apart the first message alone is taken for
        unreadable."""
        is_slaves = self._is_slaves(queue)
        pushed = None if is_slaves else _pushed(wanted)
        for count in (max(min(MOST_AT_ONCE, to_offset - at), 1), 1):
            try:
                pulled = await self._reading.pull_records(topic, queue, at, count, pushed)
            except CorruptedError as fault:
                if count > 1:
                    continue
                bounds = await self._reading.bounds_of(topic, queue)
                broken = Record(queue_offset=at, fault=fault.message)
                return PulledRecords([broken], at + 1, bounds.min_offset, bounds.max_offset, is_found=True)
            except EntrepotError as refusal:
                if refusal.code is Code.ILLEGAL_OFFSET and is_slaves:
                    raise _of_slave(topic, queue, at) from refusal
                raise
            break
        if not pulled.is_found and at < to_offset and (is_slaves or at == pulled.next_offset < pulled.max_offset):
            raise _of_slave(topic, queue, at)
        return pulled

    def _take(
        self, run: _Run, topic: str, queue: RouteQueue, records: list[Record], wanted: MessageFilter | None
    ) -> int | None:
        """Add records to a run.  Returns the offset of the first for which it has no room, or None."""
        for record in records:
            place, offset = record.commit_log_offset, record.queue_offset
            try:
                message = self._reading.message_of(topic, queue, record)
                if wanted is not None and not wanted.matches(message):
                    continue
                place, encoded = message.commit_log_offset, encoded_record(message)
            except _UNSAYABLE as fault:
                why = str(fault)
                log.warning("a message cannot be read", topic=topic, queue=queue.queue_id, offset=offset, problem=why)
                encoded = _CORRUPTED
            if not run.add(offset, place, encoded):
                return offset
        return None


def _pushed(wanted: MessageFilter | None) -> FilterExpression | None:
    """Return a filter of tags that a broker understands as it is understood here, else None."""
    expression = None if wanted is None else wanted.expression
    if expression is None or expression.kind is not FilterKind.TAG:
        return None
    return expression if is_plain(expression.text) and "|" not in expression.text.replace("||", "") else None


def _of_slave(topic: str, queue: RouteQueue, at: int) -> EntrepotError:
    text = f"{topic}/{queue.queue_id} cannot be read at {at} from {queue.address} now"
    return EntrepotError(Code.UNAVAILABLE, f"{text}: it has less than its broker told, or serves no reads")


def _size_of(record: Record) -> int:
    properties = sum(len(name) + len(value) + 2 for name, value in record.properties.items())
    return _FRAME_BYTES + len(record.topic) + properties + len(record.body)
