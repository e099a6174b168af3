"""Receiving: pops become POP_MESSAGE requests, one for each broker of the topic at the same time.

A long poll at a broker cannot be cancelled without losing messages on their way, and may be longer than its pop.  So
requests go on after their pop, and their messages wait on a shelf for the next equal pop; after `keep_ms` they are
given back.  A shelf belongs to a topic, group, filter, invisible duration and attempt id.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import structlog

from entrepot.domain.broker_of_queue import broker_number, first_place, first_queue
from entrepot.domain.definitions.consumer_group import LATEST
from entrepot.domain.delivery import Deliveries, Delivery
from entrepot.domain.errors import AWAY, Code, CorruptedError, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, compile_filter
from entrepot.domain.measurement import Histogram
from entrepot.domain.message import as_first_stored
from entrepot.domain.names import check_same_namespace, dead_letter_group
from entrepot.domain.ports import PopRequest
from entrepot.protocols.rocketmq.remoting import codes
from entrepot.protocols.rocketmq.remoting.frames import SUCCESS
from entrepot.protocols.rocketmq.remoting.messages import stored_message, tags_for
from entrepot.protocols.rocketmq.remoting.receipts import NORMAL, PopReceipt, receipts_of
from entrepot.protocols.rocketmq.remoting.records import Record, decode_records
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.deliveries import ClusterRun, delivery_of
from entrepot.store_client.rocketmq.expired import Expired
from entrepot.store_client.rocketmq.positions import Positions
from entrepot.store_client.rocketmq.reading import Reading
from entrepot.store_client.rocketmq.routes import BrokerOfTopic, Route, RouteQueue
from entrepot.store_client.rocketmq.settling import LONGEST_WAIT_MS, Settling

SPENT: Final = "max attempts reached"
MAX_RECEIVE: Final = 32
"""Most messages that RocketMQ gives at once."""
REST_SECONDS: Final = 0.5
"""Pause before a broker that refused is asked again by a pop that still waits for the others."""
POLL_MARGIN_SECONDS: Final = 7.0
"""Time by which a long poll may be longer than asked: its timer's step, and the broker's own margin."""
_ANY_QUEUE: Final = -1
_FIRST, _LAST = 0, 1
"""Where a new group begins (initMode)."""
_POPPED: Final = (SUCCESS, codes.POLLING_TIMEOUT, codes.POLLING_FULL, codes.PULL_NOT_FOUND)
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Wish:
    """The key of a shelf."""

    topic: str
    group: str
    filter: FilterExpression | None
    invisible_ms: int
    attempt_id: str


@dataclass(slots=True)
class _Shelf:
    """Deliveries that wait for a pop, pops that wait for deliveries, and open calls by broker."""

    wish: _Wish
    deliveries: deque[Delivery] = field(default_factory=deque)
    pops: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    refusals: dict[str, EntrepotError] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    keeper: asyncio.TimerHandle | None = None

    def take(self, limit: int) -> list[Delivery]:
        return [self.deliveries.popleft() for _ in range(min(limit, len(self.deliveries)))]

    def is_due(self, broker: str, asked: dict[str, float], now: float, *, again: bool) -> bool:
        """True if a pop should ask a broker (again): one that refused has a pause first."""
        if broker not in asked:
            return True
        return again and (broker not in self.refusals or asked[broker] + REST_SECONDS <= now)

    @property
    def is_idle(self) -> bool:
        return not self.deliveries and not self.pops and not any(self.calls.values())


class Receiving:
    """Implements the first half of `domain.ports.Consumption`."""

    def __init__(self, cluster: Cluster, settling: Settling, positions: Positions, reading: Reading) -> None:
        self._cluster, self._positions = cluster, positions
        self._settling, self._reading = settling, reading
        self._expired = Expired(cluster, reading, positions, settling)
        self._shelves: dict[_Wish, _Shelf] = {}
        self._is_draining = False
        self.took = Histogram()

    async def pop(self, request: PopRequest) -> Deliveries:
        """Implements `Consumption.pop`."""
        check_same_namespace(request.topic, request.group)
        route = await self._cluster.routes.of(request.topic)
        brokers = self._brokers(route)
        group = self._cluster.group_in_use(request.group)
        await self._positions.begin(group, route)
        wanted = request.filter or group.filter
        if wanted is not None:
            compile_filter(wanted)
        invisible_ms = group.invisible_seconds * 1000 if request.invisible_ms is None else request.invisible_ms
        wish = _Wish(request.topic, request.group, wanted, invisible_ms, request.attempt_id)
        if request.expired_only:
            return Deliveries.of_singles(await self._expired.take(request, route, partial(self._of_queue, wish, route)))
        shelf = self._shelves.setdefault(wish, _Shelf(wish))
        shelf.pops += 1
        try:
            found = await self._wait(shelf, brokers, request)
            if not (found or request.wait_ms) and await self._reading.until_readable(request.topic):
                found = await self._wait(shelf, brokers, request)
            return Deliveries.of_singles(found)
        finally:
            shelf.pops -= 1
            self._tidy(shelf)

    async def _of_queue(self, wish: _Wish, route: Route, queue: RouteQueue, count: int) -> list[Delivery]:
        return await self._ask(wish, route.broker(queue.broker), count, 0, queue.local_id)

    def _brokers(self, route: Route) -> list[BrokerOfTopic]:
        """Return the brokers to ask: not a slave, which keeps no receipts.  Raises FORBIDDEN, UNAVAILABLE."""
        readable = [broker for broker in route.brokers if broker.reads]
        if not readable:
            raise EntrepotError(Code.FORBIDDEN, f"topic {route.topic!r} is not readable")
        found = [broker for broker in readable if broker.has_master]
        if not found:
            self._cluster.look_again(route.topic)
            raise EntrepotError(Code.UNAVAILABLE, f"no broker of topic {route.topic!r} has a master now")
        return found

    async def _wait(self, shelf: _Shelf, brokers: list[BrokerOfTopic], request: PopRequest) -> list[Delivery]:
        loop = asyncio.get_running_loop()
        settings = self._cluster.settings
        end = loop.time() + (request.wait_ms / 1000 if request.wait_ms else self._cluster.timeout_seconds)
        asked: dict[str, float] = {}
        polls = False
        while True:
            now = loop.time()
            with suppress(EntrepotError):  # a master may have moved since
                brokers = self._brokers(await self._cluster.routes.of(request.topic))
            found, remaining = shelf.take(request.max_messages), end - now
            waits = bool(request.wait_ms) and not self._is_draining
            if found or remaining <= 0 or request.max_messages <= 0 or (polls and not waits):
                return found
            idle = [broker for broker in brokers if shelf.calls.get(broker.name, 0) < shelf.pops]
            if asked and len(idle) == len(brokers):
                refusals = [shelf.refusals.get(broker.name) for broker in brokers]
                if refusals[0] is not None and all(refusals):
                    raise refusals[0]
                if not waits:
                    return []
            due = [broker for broker in idle if shelf.is_due(broker.name, asked, now, again=waits)]
            shelf.changed.clear()
            for broker in due:
                asked[broker.name] = now
                poll_ms = min(int(remaining * 1000), settings.most_poll_ms) if waits else 0
                self._start(shelf, broker, min(request.max_messages, MAX_RECEIVE), poll_ms)
            polls = waits
            try:
                async with asyncio.timeout(remaining if len(due) == len(idle) else min(remaining, REST_SECONDS)):
                    await shelf.changed.wait()
            except TimeoutError:
                continue

    def release_waiting(self) -> None:
        """Answer every pop empty, now and from here on."""
        self._is_draining = True
        for shelf in self._shelves.values():
            shelf.changed.set()

    # -- one call ----------------------------------------------------------------------------------------------------

    def _start(self, shelf: _Shelf, broker: BrokerOfTopic, count: int, poll_ms: int) -> None:
        shelf.calls[broker.name] = shelf.calls.get(broker.name, 0) + 1
        self._cluster.spawn(self._receive(shelf, broker, count, poll_ms))

    async def _receive(self, shelf: _Shelf, broker: BrokerOfTopic, count: int, poll_ms: int) -> None:
        began = asyncio.get_running_loop().time()
        shelf.refusals.pop(broker.name, None)
        try:
            found = await self._ask(shelf.wish, broker, count, poll_ms)
            if found:
                shelf.deliveries.extend(found)
                self.took.observe(asyncio.get_running_loop().time() - began)
        except EntrepotError as refusal:
            shelf.refusals[broker.name] = refusal.with_traceback(None)
            if refusal.code in AWAY:
                self._cluster.look_again(shelf.wish.topic)
            log.info("could not receive", seldom="rocketmq", broker=broker.name, problem=refusal.message)
        except Exception as error:  # a fault of ours: waiting pops are told
            log.exception("a receive failed", broker=broker.name)
            text = f"receiving from {broker.name!r} failed: {error}"
            shelf.refusals[broker.name] = EntrepotError(Code.INTERNAL_ERROR, text)
        finally:
            shelf.calls[broker.name] -= 1
            shelf.changed.set()
            self._tidy(shelf)

    async def _ask(
        self, wish: _Wish, broker: BrokerOfTopic, count: int, poll_ms: int, queue_id: int = _ANY_QUEUE
    ) -> list[Delivery]:
        group, names = self._cluster.group(wish.group), self._cluster.names
        fields: dict[str, object] = {
            "consumerGroup": names.resource(wish.group),
            "topic": names.resource(wish.topic),
            "queueId": queue_id,
            "maxMsgNums": count,
            "invisibleTime": min(wish.invisible_ms, LONGEST_WAIT_MS),
            "pollTime": poll_ms,
            "bornTime": 0,  # the broker's own time: one of ours may be wrong
            "initMode": _LAST if group.start == LATEST and dead_letter_group(wish.topic) is None else _FIRST,
            "expType": "TAG",
            "exp": tags_for(wish.filter),
            "order": group.fifo,
            "bname": broker.name,
        }
        if wish.attempt_id:
            fields["attemptId"] = wish.attempt_id
        seconds = self._cluster.timeout_seconds + (poll_ms / 1000 + POLL_MARGIN_SECONDS if poll_ms else 0)
        what = f"deliver messages of topic {wish.topic!r}"
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = await self._cluster.ask(broker.address, codes.POP, fields, what=what, seconds=seconds, good=_POPPED)
        if answer.code != SUCCESS:
            if loop.time() < began + min(poll_ms / 1000, REST_SECONDS):
                await asyncio.sleep(REST_SECONDS)  # the broker holds no poll: it has too many, or cannot read a message
            return []
        records = decode_records(answer.body)
        receipts = receipts_of(answer, records, broker.name)
        self._positions.taken(wish.group, wish.topic, broker.name, _taken(records, receipts))
        told = zip(records, receipts, strict=True)
        found = [self._delivery(wish, broker, record, *receipt) for record, receipt in told]
        wanted = await self._wanted(wish, [delivery for delivery in found if delivery is not None])
        return await self._alive(wish, group.max_attempts, wanted)

    def _delivery(
        self, wish: _Wish, broker: BrokerOfTopic, record: Record, receipt: PopReceipt, attempt: int
    ) -> Delivery | None:
        number = broker_number(broker.name)
        try:
            queue_id = first_queue(number) + record.queue_id
            message = stored_message(record, self._cluster.names, queue_id, topic=wish.topic)
        except CorruptedError as error:
            log.warning("a message is not served, and comes again", topic=wish.topic, problem=error.message)
            return None
        message.commit_log_offset += first_place(number)
        message = as_first_stored(message)
        return delivery_of(message, ClusterRun(wish.topic, wish.group, receipt, record, attempt))

    async def _wanted(self, wish: _Wish, found: list[Delivery]) -> list[Delivery]:
        """Return the deliveries that match, and settle the others here: a broker knows tags by their hashes, no topic
        filters, and SQL only where its settings allow it."""
        if wish.filter is None:
            return found
        matches = compile_filter(wish.filter).matches
        wanted = [delivery for delivery in found if matches(delivery.message)]
        if len(wanted) < len(found):
            unwanted = [delivery for delivery in found if not matches(delivery.message)]
            await self._settling.acknowledge(wish.topic, wish.group, unwanted)
        return wanted

    async def _alive(self, wish: _Wish, max_attempts: int, found: list[Delivery]) -> list[Delivery]:
        """Return the deliveries with an attempt left, and move the others to the dead letters, as RocketMQ's own proxy
        does: brokers deliver for ever."""
        spent = [delivery.receipt_handle for delivery in found if delivery.attempt > max_attempts]
        if not spent:
            return found
        for refusal in await self._settling.reject(wish.topic, wish.group, spent, SPENT):
            if refusal is not None:  # it comes again
                log.warning("a dead letter was not made", seldom="rocketmq", problem=refusal.message)
        return [delivery for delivery in found if delivery.attempt <= max_attempts]

    # -- shelves without pops ----------------------------------------------------------------------------------------

    def _tidy(self, shelf: _Shelf) -> None:
        if shelf.is_idle:
            if shelf.keeper is not None:
                shelf.keeper.cancel()
            if self._shelves.get(shelf.wish) is shelf:
                del self._shelves[shelf.wish]
        elif shelf.deliveries and not shelf.pops and shelf.keeper is None:
            keep_ms = min(self._cluster.settings.keep_ms, shelf.wish.invisible_ms // 2)
            shelf.keeper = asyncio.get_running_loop().call_later(keep_ms / 1000, self._give_back, shelf)

    def _give_back(self, shelf: _Shelf) -> None:
        shelf.keeper = None
        if shelf.pops:
            return
        self._cluster.spawn(self._return(shelf))
        self._tidy(shelf)

    def _return(self, shelf: _Shelf) -> Coroutine[Any, Any, object]:
        """Take all messages off a shelf now, and return the work that gives them back."""
        wish, kept = shelf.wish, [delivery.receipt_handle for delivery in shelf.take(len(shelf.deliveries))]
        return self._settling.change_invisible_duration(wish.topic, wish.group, kept, 0, release=True)

    async def close(self) -> None:
        """Give back all messages on shelves."""
        for shelf in self._shelves.values():
            if shelf.keeper is not None:
                shelf.keeper.cancel()
        await asyncio.gather(*[self._return(shelf) for shelf in self._shelves.values()])


def _taken(records: Sequence[Record], receipts: Sequence[tuple[PopReceipt, int]]) -> dict[int, int]:
    """Return the offsets behind what an answer brought, by queue of the topic itself."""
    taken: dict[int, int] = {}
    for record, (receipt, _) in zip(records, receipts, strict=True):
        if receipt.retry == NORMAL:
            taken[record.queue_id] = max(taken.get(record.queue_id, 0), record.queue_offset + 1)
    return taken
