"""Inbound: topics of a cluster into the store, each queue by its offsets.

A task per queue reads what follows its position, stores it, and moves the position; at the end of the queue it waits in
a long poll.  Messages of one queue there are in one queue here, in their order, unless they have a message group: that
chooses the queue, as for every producer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import structlog

from entrepot.domain.definitions.consumer_group import EARLIEST, LATEST, parse_start
from entrepot.domain.errors import NOT_THERE, Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.domain.names import DEFAULT_NAMESPACE, split_name
from entrepot.domain.ports import Pulled, Store
from entrepot.domain.position import EARLIEST_POSITION, LATEST_POSITION, Position, PositionKind
from entrepot.domain.topic import Topic
from entrepot.gateway.bridge.errors import LeaseLostError, RemoteError
from entrepot.gateway.bridge.leased import carry_topics, first_of
from entrepot.gateway.bridge.rocketmq.carried import bears, brought
from entrepot.gateway.bridge.rocketmq.positions import KEEP_SECONDS, Positions, TopicPosition
from entrepot.gateway.bridge.rocketmq.renaming import local_name
from entrepot.gateway.bridge.rocketmq.status import CarriedTopic, RocketMqCounters
from entrepot.gateway.bridge.storing import FOR_GOOD_WHATEVER_IS_CHANGED, Storing
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.settings.rocketmq_bridge import RocketMqRemote, RocketMqRule

MAX_BATCH: Final = 256
"""Messages of one read, which are one append."""
WAIT_SECONDS: Final = 5.0
"""Longest wait at the end of a queue, in seconds; then it is read again, so that a cluster that is away is noticed."""
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.2, 3.0
"""Pauses after a refusal of the cluster."""

_T = TypeVar("_T")
_Queue = tuple[int, str, int]
"""A rule by its number, a topic of the cluster, and the id of one of its queues."""
log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Reading:
    """The reading of one queue.  `at`: its next offset; `stored_ms`: when the message before was stored at the cluster,
    0 if that is not known.  `end`: the queue's end as last told."""

    topic: str
    queue_id: int
    local: str
    at: int
    stored_ms: int
    end: int


class Inbound:
    """The incoming topics of one connection to a cluster, whose store is `cluster`."""

    def __init__(
        self,
        remote: RocketMqRemote,
        cluster: Store,
        store: Store,
        sender: Sender,
        positions: Positions,
        counters: RocketMqCounters,
        mark: tuple[str, str],
        begun_ms: int,
    ) -> None:
        self._remote, self._cluster, self._store = remote, cluster, store
        self._sender, self._positions, self._counters = sender, positions, counters
        self._mark, self._begun_ms = mark, begun_ms
        self._rules = [rule for rule in remote.rules if rule.is_in]
        self._readings: dict[_Queue, _Reading] = {}
        self._failing: dict[_Queue, str] = {}
        self._storing: dict[_Queue, Storing] = {}

    @property
    def last_refusal(self) -> str:
        """Why some queue is not carried now; empty while all are."""
        refusals = (each.last_refusal for each in self._storing.values())
        return next((each for each in (*self._failing.values(), *refusals) if each), "")

    def topics(self) -> list[CarriedTopic]:
        """Return the topics that are carried, by name."""
        found: dict[str, list[_Reading]] = {}
        for reading in self._readings.values():
            found.setdefault(reading.topic, []).append(reading)
        return [
            CarriedTopic(
                topic,
                each[0].local,
                len(each),
                sum(reading.at for reading in each),
                sum(max(reading.end - reading.at, 0) for reading in each),
            )
            for topic, each in sorted(found.items())
        ]

    async def run(self) -> None:
        """Carry until cancelled.  Raises `RemoteError` when no queue can be read, and LeaseLostError."""
        topology = self._cluster.topology
        try:
            await first_of(carry_topics(topology.watch_topics, self._wanted, self._carry_queue), self._keep())
        finally:
            with contextlib.suppress(EntrepotError, LeaseLostError):  # what was stored since comes twice
                await asyncio.shield(self._positions.keep())

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(KEEP_SECONDS)
            with contextlib.suppress(EntrepotError):  # the store is away: the next turn keeps it
                await self._positions.keep()

    def _wanted(self) -> set[_Queue]:
        topology, found = self._cluster.topology, set[_Queue]()
        for topic in topology.topics():
            rule = self._rule_of(topic.name)
            if rule is not None and topic.permission.readable:
                found |= {(rule, topic.name, queue_id) for queue_id in topology.queues(topic).readable}
        for gone in self._readings.keys() - found:
            del self._readings[gone]
        return found

    def _rule_of(self, topic: str) -> int | None:
        """Return the first rule that carries a topic of the cluster."""
        return next((n for n, rule in enumerate(self._rules) if local_name(rule, topic) is not None), None)

    # -- one queue ---------------------------------------------------------------------------------------------------

    async def _carry_queue(self, key: _Queue) -> None:
        number, topic, queue_id = key
        local = local_name(self._rules[number], topic) or topic
        send, for_good = self._sender.send_and_wait, FOR_GOOD_WHATEVER_IS_CHANGED
        storing = self._storing[key] = Storing(self._remote.name, send, self._counters, for_good)
        try:
            reading, position = await self._passing(key, lambda: self._begin(key, local))
            while True:
                pulled = await self._passing(key, lambda: self._read(reading))
                if not pulled.messages and pulled.next_offset <= reading.at:
                    pulled = replace(pulled, messages=await self._next(reading))
                await self._store_all(reading, pulled.messages, storing)
                if pulled.messages:
                    last = pulled.messages[-1]
                    reading.at, reading.stored_ms = last.queue_offset + 1, last.store_time_ms
                reading.at = max(pulled.next_offset, reading.at)
                reading.end = max(pulled.max_offset, reading.at)
                position.move(queue_id, reading.at, reading.stored_ms)
        finally:
            self._storing.pop(key, None)
            self._failing.pop(key, None)

    async def _begin(self, key: _Queue, local: str) -> tuple[_Reading, TopicPosition]:
        """Find where a queue is carried on, or begins.  Raises refusals of the cluster and of the store."""
        number, topic, queue_id = key
        await self._make_local(topic, local)
        position = await self._positions.of(topic)
        at, stored_ms = position.queues.get(queue_id, (-1, 0))
        if at < 0:
            start = self._start(self._rules[number])
            at = await self._cluster.messages.offset_at(topic, queue_id, start)
            position.move(queue_id, at, stored_ms)
        reading = self._readings[key] = _Reading(topic, queue_id, local, at, stored_ms, at)
        return reading, position

    def _start(self, rule: RocketMqRule) -> Position:
        """Return where a queue begins.  `latest` is a time, so that a queue that comes later is carried as a whole."""
        if rule.start == EARLIEST:
            return EARLIEST_POSITION
        start_ms = self._begun_ms if rule.start == LATEST else parse_start(rule.start)
        return LATEST_POSITION if start_ms is None else Position(PositionKind.TIME, start_ms)

    async def _make_local(self, topic: str, local: str) -> None:
        """Make the topic here, with as many queues and of the same type, unless it is there."""
        topology, there = self._store.topology, self._cluster.topology.topic(topic)
        if topology.topic(local) is not None or there is None:
            return
        namespace = split_name(local)[0]
        if namespace != DEFAULT_NAMESPACE and namespace not in topology.namespaces():
            await topology.put_namespace(namespace)
        await topology.put_topic(Topic(local, there.queues, there.type))

    async def _read(self, reading: _Reading) -> Pulled:
        """Return what follows a position; one that is not there any more moves to the next that is."""
        try:
            return await self._cluster.messages.pull(reading.topic, reading.queue_id, reading.at, MAX_BATCH)
        except EntrepotError as refusal:
            if refusal.code is Code.MESSAGE_CORRUPTED:
                self._step_over(reading, refusal)
            elif refusal.code is not Code.ILLEGAL_OFFSET or not await self._go_on(reading):
                raise
            return Pulled([], reading.at, reading.at, reading.end)

    def _step_over(self, reading: _Reading, refusal: EntrepotError) -> None:
        self._counters.refused_in += 1
        log.error(
            "a message of a cluster cannot be read, and is left there",
            bridge=self._remote.name,
            topic=reading.topic,
            queue=reading.queue_id,
            queue_offset=reading.at,
            problem=refusal.message,
        )
        reading.at += 1

    async def _go_on(self, reading: _Reading) -> bool:
        """Move to the next message that is there; False if that is the same place.  A queue that ends before the
        position begins anew, or has lost its end: there the next message is found by the time of the last one."""
        messages, before = self._cluster.messages, reading.at
        ends = {bounds.queue_id: bounds.max_offset for bounds in await messages.bounds(reading.topic)}
        is_anew = ends.get(reading.queue_id, before) < before
        nearest = Position(PositionKind.TIME, reading.stored_ms) if is_anew else Position(PositionKind.OFFSET, before)
        reading.at = found = await messages.offset_at(reading.topic, reading.queue_id, nearest)
        self._counters.gone += max(found - before, 0)
        log.warning(
            "messages of a cluster are gone before they were carried" if found > before else "a queue begins anew",
            bridge=self._remote.name,
            topic=reading.topic,
            queue=reading.queue_id,
            first=before,
            next=found,
        )
        return found != before

    async def _next(self, reading: _Reading) -> list[StoredMessage]:
        """Wait for the next messages of a queue; none after a while."""
        came: asyncio.Future[list[StoredMessage]] = asyncio.get_running_loop().create_future()

        def take(messages: list[StoredMessage]) -> None:
            if not came.done():
                came.set_result(messages)

        try:
            tail = self._cluster.messages.tail(reading.topic, reading.queue_id, reading.at, take)
        except EntrepotError:  # the topic is gone for now
            await asyncio.sleep(LAST_PAUSE_SECONDS)
            return []
        try:
            return await asyncio.wait_for(came, WAIT_SECONDS)
        except TimeoutError:
            return []
        finally:
            tail.close()

    async def _store_all(self, reading: _Reading, messages: list[StoredMessage], storing: Storing) -> None:
        wanted = [message for message in messages if not bears(message, self._mark)]
        self._counters.ignored += len(messages) - len(wanted)
        if wanted:
            queue_id = self._local_queue(reading)
            bridge = self._remote.name
            await storing.store([brought(each, reading.local, queue_id, bridge) for each in wanted])

    def _local_queue(self, reading: _Reading) -> int:
        """Return the queue here of a queue of the cluster: always the same one while numbers of queues stay."""
        topology, cluster = self._store.topology, self._cluster.topology
        there, here = cluster.topic(reading.topic), topology.topic(reading.local)
        if there is None or here is None:
            return 0
        ids = list(cluster.queues(there).readable)
        place = ids.index(reading.queue_id) if reading.queue_id in ids else reading.queue_id
        writable = topology.queues(here).writable
        return writable[place % len(writable)] if writable else 0

    # -- refusals of the cluster -------------------------------------------------------------------------------------

    async def _passing(self, key: _Queue, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Return an answer, and ask again while it is refused.  Raises `RemoteError` when all queues are refused."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                answer = await ask()
            except EntrepotError as refusal:
                self._failing[key] = refusal.message
                is_all = len(self._failing) >= len(self._storing)
                if is_all and refusal.code not in NOT_THERE and pause >= LAST_PAUSE_SECONDS:
                    raise RemoteError(refusal.message) from None
                await asyncio.sleep(pause)
                pause = min(pause * 2, LAST_PAUSE_SECONDS)
            else:
                self._failing.pop(key, None)
                return answer
