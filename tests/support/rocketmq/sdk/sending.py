"""Sending: batches become SendMessage calls, and are confirmed in the order they came.  Unordered messages go out in
batches and in parallel.  Those of one message group go one by one, each after the answer to the one before, since a
queue has the cluster's order of arrival."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Final
from zlib import crc32

from entrepot.domain.acceptance import fits_a_record, unfit
from entrepot.domain.callbacks import call_each
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.measurement import Histogram
from entrepot.domain.message import Message
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import refusal_of
from entrepot.protocols.rocketmq.mapping import MESSAGE_ID_SIZE
from entrepot.protocols.rocketmq.names import timestamp
from tests.support.rocketmq.sdk.calls import SEND, Connection
from tests.support.rocketmq.sdk.cluster import Cluster
from tests.support.rocketmq.sdk.messages import message_type, to_wire
from tests.support.rocketmq.sdk.routes import Route

log = logging.getLogger(__name__)

UNKNOWN: Final = frozenset({Code.REQUEST_TIMEOUT, Code.UNAVAILABLE, Code.INTERNAL_ERROR})
"""Codes that leave open if a message was stored: they fail the batch, and do not refuse the message."""
BATCHED: Final = frozenset({v2.NORMAL, v2.PRIORITY})

OnSent = Callable[[Message, v2.SendResultEntry, Connection], None]


@dataclass(slots=True)
class _Batch:
    """One append and its results."""

    confirmation: Confirmation
    refusals: list[EntrepotError | None]
    began: float
    failure: EntrepotError | None = None
    is_done: bool = False


@dataclass(slots=True)
class _Sending:
    """One SendMessage: messages of one topic and type, with their places in the batch."""

    route: Route
    lane: tuple[str, str] | None
    messages: list[tuple[int, Message, v2.Message]] = field(default_factory=list)
    size: int = 0


class Sending:
    """Implements `domain.ports.MessageAppender`, and half messages.  `on_sent`: called with every accepted message."""

    def __init__(self, cluster: Cluster, on_sent: OnSent) -> None:
        self._cluster = cluster
        self._on_sent = on_sent
        self._batches: deque[_Batch] = deque()
        self._lanes: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._calls = asyncio.Semaphore(cluster.settings.max_sends)
        self._turn = count()
        self._relieved: list[Callable[[], None]] = []
        self.took = Histogram()
        self.waiting = 0

    def append(
        self,
        messages: Sequence[Message],
        *,
        is_half: bool = False,
        refusals: list[EntrepotError | None] | None = None,
    ) -> Confirmation:
        """Implements `MessageAppender.append` and `Transactions.append_half`; `refusals`: those known already."""
        loop = asyncio.get_running_loop()
        refusals = [None] * len(messages) if refusals is None else refusals
        batch = _Batch(Confirmation(refusals), refusals, loop.time())
        self._batches.append(batch)
        self.waiting += len(messages)
        sendings = list(self._sendings(messages, refusals, is_half=is_half))
        tasks = [self._start(batch, sending) for sending in sendings]
        self._cluster.spawn(self._finish(batch, tasks))
        return batch.confirmation

    # -- calls of a batch --------------------------------------------------------------------------------------------

    def _sendings(
        self, messages: Sequence[Message], refusals: list[EntrepotError | None], *, is_half: bool
    ) -> Iterator[_Sending]:
        """Yield the calls of a batch, and fill in local refusals."""
        limits, now = self._cluster.settings, self._cluster.clock.now_ms()
        open_ones: dict[tuple[str, v2.MessageType.ValueType], _Sending] = {}
        for index, message in enumerate(messages):
            if refusals[index] is not None:
                continue
            if not fits_a_record(message):
                refusals[index] = unfit(message)
                continue
            try:
                route = self._writable(message)
                kind = message_type(message, route.accepts, now, is_half=is_half)
                wire = self._wire(message, kind, now)
                if message.queue_id >= 0:
                    # a wish, as published clients send it: most clusters choose for themselves
                    wire.system_properties.queue_id = route.queues[message.queue_id].broker_queue_id
            except EntrepotError as refusal:
                refusals[index] = refusal.with_traceback(None)
                continue
            if kind not in BATCHED:
                group = wire.system_properties.message_group
                lane = (message.topic, group) if kind == v2.FIFO else None
                yield _Sending(route, lane, [(index, message, wire)])
                continue
            size = wire.ByteSize()
            sending = open_ones.get((message.topic, kind))
            if (
                sending is None
                or len(sending.messages) >= limits.max_batch
                or sending.size + size > (limits.max_batch_bytes)
            ):
                if sending is not None:
                    yield sending
                sending = open_ones[message.topic, kind] = _Sending(route, None)
            sending.messages.append((index, message, wire))
            sending.size += size
        yield from open_ones.values()

    def _writable(self, message: Message) -> Route:
        if message.further_queues:
            raise EntrepotError(
                Code.UNSUPPORTED, "a RocketMQ cluster takes no message for further queues (multi-dispatch)"
            )
        route = self._cluster.routes.known(message.topic)
        if route is None or message.queue_id >= len(route.queues):
            raise EntrepotError(
                Code.TOPIC_NOT_FOUND, f"there is no queue {message.queue_id} of topic {message.topic!r}"
            )
        if not route.brokers(writable=True):
            raise EntrepotError(Code.FORBIDDEN, f"topic {message.topic!r} is not writable")
        return route

    def _wire(self, message: Message, kind: v2.MessageType.ValueType, now_ms: int) -> v2.Message:
        if not message.message_id:
            message.message_id = secrets.token_bytes(MESSAGE_ID_SIZE)
        wire = to_wire(message, kind, self._cluster.namespaces)
        if not message.born_time_ms:
            wire.system_properties.born_timestamp.CopyFrom(timestamp(now_ms))
        return wire

    # -- sending -----------------------------------------------------------------------------------------------------

    def _start(self, batch: _Batch, sending: _Sending) -> asyncio.Task[None]:
        lane = sending.lane
        before = None if lane is None else self._lanes.get(lane)
        task = self._cluster.spawn(self._send_after(before, batch, sending))
        if lane is not None:
            self._lanes[lane] = task
            task.add_done_callback(lambda done: self._leave(lane, done))
        return task

    def _leave(self, lane: tuple[str, str], task: asyncio.Task[None]) -> None:
        if self._lanes.get(lane) is task:
            del self._lanes[lane]

    async def _send_after(self, before: asyncio.Task[None] | None, batch: _Batch, sending: _Sending) -> None:
        if before is not None:
            await asyncio.wait([before])
        async with self._calls:
            try:
                await self._send(batch, sending)
            except EntrepotError as refusal:
                for index, _, _ in sending.messages:
                    _note(batch, index, refusal)
            except Exception:  # a fault of ours, or of gRPC: nothing unanswered may be confirmed
                log.exception("a send failed")
                _note(batch, 0, EntrepotError(Code.INTERNAL_ERROR, "the messages could not be sent"))

    async def _send(self, batch: _Batch, sending: _Sending) -> None:
        brokers = sending.route.brokers(writable=True)
        turn = next(self._turn) if sending.lane is None else crc32(sending.lane[1].encode())
        connection = self._cluster.connection(brokers[turn % len(brokers)].places)
        session = await self._cluster.publisher(sending.route.topic)
        question = v2.SendMessageRequest(messages=[wire for _, _, wire in sending.messages])
        answer = await session.call(connection, SEND, question)
        entries = list(answer.entries)
        if len(entries) != len(sending.messages):
            # a server may answer a batch in one entry for all
            entries = [entries[0] if len(entries) == 1 else v2.SendResultEntry(status=answer.status)] * len(
                sending.messages
            )
        for (index, message, _), entry in zip(sending.messages, entries, strict=True):
            refusal = refusal_of(entry.status)
            if refusal is None:
                self._on_sent(message, entry, connection)
            else:
                _note(batch, index, refusal)

    # -- confirming --------------------------------------------------------------------------------------------------

    async def _finish(self, batch: _Batch, tasks: list[asyncio.Task[None]]) -> None:
        try:
            if tasks:
                await asyncio.wait(tasks)
            if any(task.cancelled() for task in tasks):
                batch.failure = EntrepotError(Code.UNAVAILABLE, "the store was closed, unknown outcome")
        except asyncio.CancelledError:
            batch.failure = EntrepotError(Code.UNAVAILABLE, "the store was closed, unknown outcome")
        batch.is_done = True
        self.took.observe(asyncio.get_running_loop().time() - batch.began, len(batch.refusals))
        while self._batches and self._batches[0].is_done:
            done = self._batches.popleft()
            self.waiting -= len(done.refusals)
            done.confirmation.settle(done.failure)
        if not self.backlogged:
            relieved, self._relieved = self._relieved, []
            for fault in call_each(relieved):
                log.error("a callback of relief failed", exc_info=fault)

    async def close(self) -> None:
        """Wait until everything accepted is answered; each call has its deadline."""
        while self._batches:
            with suppress(EntrepotError):
                await self._batches[-1].confirmation.wait()

    @property
    def backlogged(self) -> bool:
        """True if more messages wait for the cluster than the limit."""
        return self.waiting > self._cluster.settings.max_waiting

    def when_relieved(self, callback: Callable[[], None]) -> None:
        """Implements `MessageAppender.when_relieved`."""
        if self.backlogged:
            self._relieved.append(callback)
        else:
            callback()


def _note(batch: _Batch, index: int, refusal: EntrepotError) -> None:
    """Note a refusal at its message's place; an open outcome fails the batch."""
    if refusal.code not in UNKNOWN:
        batch.refusals[index] = refusal
    elif batch.failure is None:
        unknown = refusal.message if "unknown outcome" in refusal.message else f"{refusal.message} (unknown outcome)"
        batch.failure = EntrepotError(refusal.code, unknown)
