"""Receiving: pops become ReceiveMessage calls, one for each broker of the topic at the same time.

A long poll at a cluster cannot be cancelled without losing messages on their way, and may be longer than its pop.  So
calls go on after their pop, and their messages wait on a shelf for the next equal pop; after `keep_ms` they are given
back.  A shelf belongs to a topic, group, filter, invisible duration and attempt id.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from entrepot.domain.delivery import Deliveries, Delivery
from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.domain.measurement import Histogram
from entrepot.domain.names import check_same_namespace
from entrepot.domain.ports import PopRequest
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.cluster_handle import ClusterHandle
from entrepot.protocols.rocketmq.errors import SUCCESSES, refusal_of
from entrepot.protocols.rocketmq.names import duration
from tests.support.rocketmq.sdk.calls import RECEIVE
from tests.support.rocketmq.sdk.cluster import Cluster, wire_filter
from tests.support.rocketmq.sdk.messages import from_wire
from tests.support.rocketmq.sdk.routes import ALL_QUEUES, Route, RouteQueue
from tests.support.rocketmq.sdk.settling import Settling
from tests.support.stores.single import single_delivery

log = logging.getLogger(__name__)

MAX_RECEIVE: Final = 32
"""Most messages that RocketMQ gives at once."""
REST_SECONDS: Final = 0.5
"""Pause before a broker that refused is asked again by a pop that still waits for the others."""


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

    def __init__(self, cluster: Cluster, settling: Settling) -> None:
        self._cluster = cluster
        self._settling = settling
        self._shelves: dict[_Wish, _Shelf] = {}
        self._is_draining = False
        self.took = Histogram()

    async def pop(self, request: PopRequest) -> Deliveries:
        """Implements `Consumption.pop`.  Without a wait the cluster still gets `answer_ms`."""
        check_same_namespace(request.topic, request.group)
        route = await self._cluster.routes.of(request.topic)
        brokers = route.brokers()
        if not brokers:
            raise EntrepotError(Code.FORBIDDEN, f"topic {request.topic!r} is not readable")
        group = self._cluster.group_in_use(request.group)
        wanted = request.filter or group.filter
        if wanted is not None:
            compile_filter(wanted)
        invisible_ms = group.invisible_seconds * 1000 if request.invisible_ms is None else request.invisible_ms
        wish = _Wish(request.topic, request.group, wanted, invisible_ms, request.attempt_id)
        shelf = self._shelves.setdefault(wish, _Shelf(wish))
        shelf.pops += 1
        try:
            return Deliveries.of_singles(await self._wait(shelf, route, brokers, request))
        finally:
            shelf.pops -= 1
            self._tidy(shelf)

    async def _wait(
        self, shelf: _Shelf, route: Route, brokers: list[RouteQueue], request: PopRequest
    ) -> list[Delivery]:
        loop = asyncio.get_running_loop()
        settings = self._cluster.settings
        end = loop.time() + (request.wait_ms or settings.answer_ms) / 1000
        asked: dict[str, float] = {}
        polls = False
        while True:
            now = loop.time()
            found, remaining = shelf.take(request.max_messages), end - now
            waits = bool(request.wait_ms) and not self._is_draining
            if found or remaining <= 0 or request.max_messages <= 0 or (polls and not waits):
                return found
            idle = [broker for broker in brokers if shelf.calls.get(broker.broker, 0) < shelf.pops]
            if asked and len(idle) == len(brokers):
                refusals = [shelf.refusals.get(broker.broker) for broker in brokers]
                if refusals[0] is not None and all(refusals):
                    raise refusals[0]
                if not waits:
                    return []
            due = [broker for broker in idle if shelf.is_due(broker.broker, asked, now, again=waits)]
            shelf.changed.clear()
            for broker in due:
                asked[broker.broker] = now
                poll_ms = min(int(remaining * 1000), settings.most_poll_ms) if waits else 0
                self._start(shelf, route, broker, min(request.max_messages, MAX_RECEIVE), poll_ms)
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

    def _start(self, shelf: _Shelf, route: Route, broker: RouteQueue, count: int, poll_ms: int) -> None:
        shelf.calls[broker.broker] = shelf.calls.get(broker.broker, 0) + 1
        self._cluster.spawn(self._receive(shelf, route, broker, count, poll_ms))

    async def _receive(self, shelf: _Shelf, route: Route, broker: RouteQueue, count: int, poll_ms: int) -> None:
        began = asyncio.get_running_loop().time()
        shelf.refusals.pop(broker.broker, None)
        try:
            found = await self._ask(shelf, route, broker, count, poll_ms)
            if found:
                shelf.deliveries.extend(found)
                self.took.observe(asyncio.get_running_loop().time() - began)
        except EntrepotError as refusal:
            shelf.refusals[broker.broker] = refusal
            log.info("could not receive from %s: %s", broker.broker, refusal.message)
        except Exception as error:  # a fault of ours, or of gRPC: waiting pops are told
            log.exception("a receive from %s failed", broker.broker)
            text = f"receiving from {broker.broker!r} failed: {error}"
            shelf.refusals[broker.broker] = EntrepotError(Code.INTERNAL_ERROR, text)
        finally:
            shelf.calls[broker.broker] -= 1
            shelf.changed.set()
            self._tidy(shelf)

    async def _ask(self, shelf: _Shelf, route: Route, broker: RouteQueue, count: int, poll_ms: int) -> list[Delivery]:
        wish, settings = shelf.wish, self._cluster.settings
        session = await self._cluster.consumer(wish.group, wish.topic, wish.filter)
        question = v2.ReceiveMessageRequest(
            group=self._cluster.namespaces.resource(wish.group),
            message_queue=broker.message_queue(ALL_QUEUES),
            filter_expression=wire_filter(wish.filter),
            batch_size=count,
            invisible_duration=duration(wish.invisible_ms),
            long_polling_timeout=duration(poll_ms),
        )
        if wish.attempt_id:
            question.attempt_id = wish.attempt_id
        # a cluster may hold a call for its own shortest poll, whatever was asked, and refuses one that ends before
        seconds = (max(poll_ms, settings.least_poll_ms) + settings.request_timeout_ms) / 1000
        wires: list[v2.Message] = []
        refusal: EntrepotError | None = None
        try:
            async for answer in session.stream(self._cluster.connection(broker.places), RECEIVE, question, seconds):
                content = answer.WhichOneof("content")
                if content == "message":
                    wires.append(answer.message)
                elif content == "status" and answer.status.code not in (*SUCCESSES, v2.MESSAGE_NOT_FOUND):
                    refusal = refusal_of(answer.status)
        except EntrepotError as failure:
            refusal = failure
        if refusal is not None and not wires:
            raise refusal
        return await self._wanted(wish, [d for wire in wires if (d := self._delivery(wish, route, broker, wire))])

    def _delivery(self, wish: _Wish, route: Route, broker: RouteQueue, wire: v2.Message) -> Delivery | None:
        system = wire.system_properties
        try:
            message = from_wire(wire, self._cluster.namespaces, route.queue_id_of(broker.broker, system.queue_id))
        except CorruptedError as error:
            log.warning("%s: %s; it is not served, and comes again", wish.topic, error.message)
            return None
        attempt = max(system.delivery_attempt, 1)
        handle = ClusterHandle(
            wish.topic,
            wish.group,
            broker.broker,
            system.message_id,
            system.receipt_handle,
            attempt,
            system.queue_id,
        )
        return single_delivery(message, handle.encode(), attempt)

    async def _wanted(self, wish: _Wish, found: list[Delivery]) -> list[Delivery]:
        """Return the deliveries that match, and settle the others here: the protocol has no topic filters."""
        if wish.filter is None or wish.filter.kind is not FilterKind.SUB_TOPIC:
            return found
        matches = compile_filter(wish.filter).matches
        unwanted = [delivery.receipt_handle for delivery in found if not matches(delivery.message)]
        if unwanted:
            await self._settling.acknowledge(wish.topic, wish.group, unwanted)
        return [delivery for delivery in found if matches(delivery.message)]

    # -- shelves without pops ----------------------------------------------------------------------------------------

    def _tidy(self, shelf: _Shelf) -> None:
        if shelf.is_idle:
            self._shelves.pop(shelf.wish, None)
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
