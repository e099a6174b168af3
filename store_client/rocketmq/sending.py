"""Sending: appended messages become requests, and batches are confirmed in the order they came.

Each message queue has a lane with one request under way, since a broker's threads overtake each other: what comes
meanwhile goes together with the next one.  A batch holds no timed and no half message: RocketMQ would store a batch
with a delivery time, and deliver nothing that is timed any more.  Those go one by one, beside the lanes.  A broker
refuses a batch as a whole, so a refused one is sent again message by message: only the odd one is refused.

Work that must lie between earlier and later messages of a queue, such as the beginning of a subscription, takes a turn
in its lane (`in_turn`).

A message for further queues goes to each of them as one of its own, and counts once all have it: RocketMQ writes it
once for light queues alone.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import structlog

from entrepot.domain.acceptance import fits_a_record, is_for_later, unfit
from entrepot.domain.callbacks import call_each
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import UNANSWERED, Code, EntrepotError
from entrepot.domain.measurement import Histogram
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.routing.queue_selector import RoundRobin, queue_for_key
from entrepot.protocols.rocketmq.mapping import MESSAGE_ID_SIZE
from entrepot.protocols.rocketmq.remoting.messages import CHECK_AFTER, HALF, PRODUCER_GROUP, body_for, properties_for
from entrepot.protocols.rocketmq.remoting.property_text import encode
from entrepot.protocols.rocketmq.remoting.records import HALF as HALF_FLAG
from entrepot.protocols.rocketmq.remoting.records import encode_batch
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.ends import Ends
from entrepot.store_client.rocketmq.routes import RouteQueue
from entrepot.store_client.rocketmq.send_request import StorePlace, queue_offset_in, store_at
from entrepot.store_client.rocketmq.turn import Turn

MAX_BODY_BYTES: Final = 15 << 20
"""Longest body that fits a frame with its properties; brokers take 4 MiB unless their settings say more."""
_AS_A_WHOLE: Final = frozenset({Code.BAD_REQUEST, Code.INTERNAL_ERROR, Code.MESSAGE_BODY_TOO_LARGE})
"""Refusals of a batch that may be those of one message in it."""
_BODY_LIMIT: Final = re.compile(r"body length limit ([0-9]{1,12})B")
"""A broker's words for its longest body, in a refusal that may mean the properties, too."""
_TIMER_LIMIT: Final = "timer message illegal"
"""A broker's words for a time that is too far ahead."""
log = structlog.get_logger(__name__)


class Sent(NamedTuple):
    """Where a message was stored.  `offset_id`: its offset message id; `recall_handle`: of a timed message."""

    broker: str
    address: str
    offset_id: str
    queue_offset: int
    recall_handle: str


OnSent = Callable[[Message, Sent], None]


@dataclass(slots=True)
class _Batch:
    """One append and its results.  `left`: messages without an outcome."""

    confirmation: Confirmation
    refusals: list[EntrepotError | None]
    began: float
    left: int
    failure: EntrepotError | None = None


@dataclass(slots=True)
class _Item:
    """A message on its way, with its place in its batch."""

    batch: _Batch
    index: int
    message: Message
    queue_id: int
    body: bytes
    properties: str
    is_done: bool = False
    is_half: bool = False

    @property
    def size(self) -> int:
        return len(self.body) + len(self.properties)


@dataclass(slots=True)
class _Lane:
    """The messages for one queue.  `task`: sends them, while there are any."""

    items: deque[_Item | Turn] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None


class Sending:
    """Implements `domain.ports.MessageAppender`, and half messages.  `on_sent`: called with each stored timed or half
    message."""

    def __init__(self, cluster: Cluster, on_sent: OnSent) -> None:
        self._cluster = cluster
        self._on_sent = on_sent
        self._batches: deque[_Batch] = deque()
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self.ends = Ends(cluster)
        self._singles = asyncio.Semaphore(cluster.settings.max_sends)
        self._turns = RoundRobin()
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
        refusals = [None] * len(messages) if refusals is None else refusals
        batch = _Batch(Confirmation(refusals), refusals, asyncio.get_running_loop().time(), len(messages))
        self._batches.append(batch)
        self.waiting += len(messages)
        now_ms = self._cluster.clock.now_ms()
        for index, message in enumerate(messages):
            if refusals[index] is None:
                try:
                    self._take(batch, index, message, now_ms, is_half=is_half)
                    continue
                except EntrepotError as refusal:
                    refusals[index] = refusal.with_traceback(None)
                except Exception as fault:  # of ours: the others go on, and what comes later is confirmed
                    log.exception("a message could not be encoded", topic=message.topic)
                    refusals[index] = EntrepotError(Code.INTERNAL_ERROR, f"the message cannot be encoded: {fault}")
            batch.left -= 1
        if batch.left <= 0:
            asyncio.get_running_loop().call_soon(self._settle)
        return batch.confirmation

    def _take(self, batch: _Batch, index: int, message: Message, now_ms: int, *, is_half: bool) -> None:
        """Put a message on its way.  Raises its refusal."""
        if not fits_a_record(message):
            raise unfit(message)
        queue_id = self._queue(message)
        for topic, further in message.further_queues:
            self._check_queue(topic, further)
        is_later = is_for_later(message, now_ms)
        if is_half and message.further_queues:
            raise EntrepotError(Code.UNSUPPORTED, "RocketMQ keeps a half message for one queue")
        if is_half and is_later:
            text = "RocketMQ takes one of transaction and delivery time, not both of them"
            raise EntrepotError(Code.BAD_REQUEST, text)
        if len(message.body) > MAX_BODY_BYTES:
            text = f"the body has {len(message.body)} bytes, the limit is {MAX_BODY_BYTES}"
            raise EntrepotError(Code.MESSAGE_BODY_TOO_LARGE, text)
        if not message.message_id:
            message.message_id = secrets.token_bytes(MESSAGE_ID_SIZE)
        at_ms = message.time_ms(SystemProperty.DELIVER_AT_MS) if is_later else None
        copies = [(message, queue_id), *((message.placed([place]), place[1]) for place in message.further_queues)]
        items = [_Item(batch, index, copy, to, body_for(copy), properties_for(copy, at_ms)) for copy, to in copies]
        batch.left += len(items) - 1
        for item in items:
            if is_half:
                item.is_half, item.properties = True, item.properties + self._half_properties(copies[0][0])
            if is_half or is_later:
                self._cluster.spawn(self._send_alone(item))
            else:
                self._put(item, (item.message.topic, item.queue_id))

    def _half_properties(self, message: Message) -> str:
        said = {HALF: "true", PRODUCER_GROUP: self._cluster.settings.producer_group}
        if (after_ms := message.time_ms(SystemProperty.CHECK_AFTER_MS)) is not None:
            said[CHECK_AFTER] = str(max(-(-after_ms // 1000), 1))  # brokers refuse a commit that comes later than 0 s
        return encode(said)

    def in_turn(self, topic: str, queue_id: int, work: Callable[[], Awaitable[int]]) -> asyncio.Future[int]:
        """Do work at a queue once all that was appended for it is answered, and before what is appended later."""
        turn = Turn(work, asyncio.get_running_loop().create_future())
        self._put(turn, (topic, queue_id))
        return turn.outcome

    def _put(self, item: _Item | Turn, place: tuple[str, int]) -> None:
        """Put a message into the lane of its queue."""
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = _Lane()
            lane.task = self._cluster.spawn(self._send_lane(lane, *place))
        lane.items.append(item)

    def _check_queue(self, topic: str, queue_id: int) -> None:
        route = self._cluster.routes.known(topic)
        if route is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {topic!r}")
        if not route.queue(queue_id).is_writable:
            raise EntrepotError(Code.FORBIDDEN, f"queue {queue_id} of {topic!r} is not writable")

    def _queue(self, message: Message) -> int:
        """Return the queue of a message: its own, else that of its group, else the next one."""
        route = self._cluster.routes.known(message.topic)
        if route is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {message.topic!r}")
        if not route.ids.writable:
            raise EntrepotError(Code.FORBIDDEN, f"topic {message.topic!r} is not writable")
        if message.queue_id < 0:
            key = message.message_group
            return queue_for_key(key, route.ids.writable) if key else self._turns.queue(route.ids.writable)
        self._check_queue(message.topic, message.queue_id)
        return message.queue_id

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _send_lane(self, lane: _Lane, topic: str, queue_id: int) -> None:
        taken: list[_Item] = []
        try:
            while lane.items:
                if isinstance(lane.items[0], Turn):
                    await lane.items[0].run()
                    lane.items.popleft()
                    continue
                taken = self._next(lane)
                await self._send_together(taken, topic, queue_id)
                taken = []
        finally:
            self._lanes.pop((topic, queue_id), None)
            for item in (*taken, *lane.items):
                if isinstance(item, Turn):
                    item.end(EntrepotError(Code.UNAVAILABLE, "the store was closed"))
                else:
                    self._done(item, EntrepotError(Code.OUTCOME_UNKNOWN, "the store was closed: unknown outcome"))
            self._settle()

    def _next(self, lane: _Lane) -> list[_Item]:
        """Take messages for one request from a lane that begins with one."""
        settings = self._cluster.settings
        taken: list[_Item] = []
        size = 0
        while lane.items and len(taken) < settings.max_batch:
            item = lane.items[0]
            if isinstance(item, Turn) or (taken and size + item.size > settings.max_batch_bytes):
                break
            size += item.size
            taken.append(item)
            lane.items.popleft()
        return taken

    async def _send_together(self, items: list[_Item], topic: str, queue_id: int) -> None:
        try:
            queue = await self._taking(topic, queue_id)
            if len(items) == 1:
                self.ends.note(topic, queue, (await self._send(items[0], queue)).queue_offset, 1)
            else:
                body = encode_batch([(item.body, item.properties) for item in items])
                born_ms = items[0].message.born_time_ms
                place = self._place(queue, topic)
                answer = await store_at(self._cluster, place, "", body, born_ms=born_ms, is_batch=True)
                self.ends.note(topic, queue, queue_offset_in(answer), len(items))
            outcome = None
        except EntrepotError as refusal:
            outcome = refusal.with_traceback(None)
        if outcome is not None and len(items) > 1 and outcome.code in _AS_A_WHOLE:
            for item in items:
                await self._send_together([item], topic, queue_id)
            return
        if outcome is not None:
            self._look_again(topic, outcome)
        for item in items:
            self._done(item, outcome)
        self._settle()

    async def _taking(self, topic: str, queue_id: int) -> RouteQueue:
        """Return a queue that a master serves.  Raises UNAVAILABLE while its broker has none."""
        queue = (await self._cluster.routes.of(topic)).queue(queue_id)
        if not queue.has_master:
            raise EntrepotError(Code.UNAVAILABLE, f"broker {queue.broker!r} has no master now")
        return queue

    async def _send_alone(self, item: _Item) -> None:
        outcome: EntrepotError | None = EntrepotError(Code.OUTCOME_UNKNOWN, "the store was closed: unknown outcome")
        try:
            async with self._singles:
                queue = await self._taking(item.message.topic, item.queue_id)
                self._on_sent(item.message, await self._send(item, queue))
            outcome = None
        except EntrepotError as refusal:
            outcome = refusal.with_traceback(None)
            self._look_again(item.message.topic, refusal)
        finally:
            self._done(item, outcome)
            self._settle()

    async def _send(self, item: _Item, queue: RouteQueue) -> Sent:
        flag, born_ms = HALF_FLAG if item.is_half else 0, item.message.born_time_ms
        place = self._place(queue, item.message.topic)
        try:
            answer = await store_at(self._cluster, place, item.properties, item.body, born_ms=born_ms, flag=flag)
        except EntrepotError as refusal:
            if _TIMER_LIMIT in refusal.message:
                raise EntrepotError(Code.ILLEGAL_DELIVERY_TIME, refusal.message) from refusal
            found = _BODY_LIMIT.search(refusal.message) if refusal.code is Code.BAD_REQUEST else None
            if found is None or len(item.body) <= int(found[1]):
                raise
            text = f"the body has {len(item.body)} bytes, the limit is {found[1]}"
            raise EntrepotError(Code.MESSAGE_BODY_TOO_LARGE, text) from refusal
        told = answer.fields
        return Sent(
            queue.broker,
            queue.address,
            told.get("msgId", ""),
            queue_offset_in(answer),
            told.get("recallHandle", ""),
        )

    def _place(self, queue: RouteQueue, topic: str) -> StorePlace:
        return StorePlace(self._cluster.names.resource(topic), queue.local_id, queue.broker, queue.address)

    def _look_again(self, topic: str, refusal: EntrepotError) -> None:
        """Ask for the route again, which an answer, or its absence, has put in doubt."""
        if refusal.code in (Code.TOPIC_NOT_FOUND, Code.UNAVAILABLE, Code.STORAGE_FULL, Code.FORBIDDEN, *UNANSWERED):
            self._cluster.look_again(topic)

    # -- confirming --------------------------------------------------------------------------------------------------

    def _done(self, item: _Item, outcome: EntrepotError | None) -> None:
        if item.is_done:
            return
        item.is_done = True
        batch = item.batch
        batch.left -= 1
        if outcome is None:
            return
        if outcome.code not in UNANSWERED:  # those fail the batch, and do not refuse the message
            batch.refusals[item.index] = outcome
        elif batch.failure is None:
            batch.failure = EntrepotError(outcome.code, outcome.message)

    def _settle(self) -> None:
        """Confirm the batches that are done, in the order they came."""
        now = asyncio.get_running_loop().time()
        while self._batches and self._batches[0].left <= 0:
            done = self._batches.popleft()
            self.took.observe(now - done.began, len(done.refusals))
            self.waiting -= len(done.refusals)
            for fault in call_each([partial(done.confirmation.settle, done.failure)]):
                log.error("a callback of a confirmation failed", exc_info=fault)
        if self._relieved and not self.backlogged:
            relieved, self._relieved = self._relieved, []
            for fault in call_each(relieved):
                log.error("a callback of relief failed", exc_info=fault)

    async def close(self) -> None:
        """Wait until everything accepted is answered; each request has its deadline."""
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
