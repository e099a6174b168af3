"""Pop: one pop under way: decided in a step, parked while there are no messages, read once it is durable."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from time import perf_counter
from typing import Final

from entrepot.broker.consume.consumption import PopTerms
from entrepot.broker.consume.handing_out import ClaimedRun
from entrepot.broker.consume.thawed import Missed, NotThawedError
from entrepot.broker.metadata.registry import put_topic
from entrepot.broker.ports.core import BrokerCore
from entrepot.broker.store.record import RecordKind
from entrepot.domain.background import background
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Deliveries, DeliveryPlaces
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import compile_filter
from entrepot.domain.names import dead_letter_group
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic

THAW_SECONDS: Final = 5.0
"""Least time that a pop waits for cold messages, in seconds: a pop without waiting must not miss them."""


class Popping:
    """The pops of one broker."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self.unanswered: Counter[tuple[str, str, int]] = Counter()
        """Deliveries that wait for the log, by group, topic and message queue: no consumer has them yet."""

    async def pop(self, request: PopRequest) -> Deliveries:
        core, deadline = self._core, self._core.loop.time() + request.wait_ms / 1000
        readable_topic(core, request.topic)
        while True:
            pop = Pop(core, request, deadline, self.unanswered)
            core.commit.decide(pop)
            try:
                await pop.confirmation.wait()
            except BaseException:
                pop.cancel()
                raise
            found = pop.hand_out()
            if found or not pop.has_claimed or request.attempt_id:
                return found  # an attempt would claim the same again, without end
            core.commit.submit(Confirmation())  # all messages were corrupted, and are held back: there may be more


class Pop:
    """A decision, and a waiter of long polling. `unanswered` counts its claimed messages that nobody has yet."""

    def __init__(
        self, core: BrokerCore, request: PopRequest, deadline: float, unanswered: Counter[tuple[str, str, int]]
    ) -> None:
        self.confirmation = Confirmation()
        self.sees_taken = True
        self._core, self._request, self._deadline = core, request, deadline
        self._unanswered = unanswered
        self._claimed: list[ClaimedRun] = []
        self._claimed_at = 0.0
        self._now_ms = 0
        self._error: Exception | None = None
        self._is_cancelled = self._has_waited = False
        self._timer: asyncio.TimerHandle | None = None
        self._thawing: asyncio.Task[None] | None = None
        self._thaw_until = 0.0
        self._thaw_failure: EntrepotError | None = None

    @property
    def has_claimed(self) -> bool:
        return bool(self._claimed)

    # -- deciding ------------------------------------------------------------------------------------------------

    def decide(self) -> bool:
        request, polling = self._request, self._core.polling
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_cancelled:
            polling.wake(request.topic, request.group)  # its turn must not be lost with it
            return False
        if self._has_waited and polling.is_released:
            return True  # the store or its gateway is ending: waiting pops are answered empty
        self._core.consumption.thawed.take_missed()
        try:
            try:
                return self._decide()
            except NotThawedError as error:
                return self._thaw(error.missed)
        except Exception as error:  # noqa: BLE001 told to who asked: the other decisions of the step go on
            self._error = error
            return True

    def _decide(self) -> bool:
        core, request = self._core, self._request
        topic = readable_topic(core, request.topic)
        now_ms = core.now_ms()
        group = core.consumption.group(request.group, topic.name, now_ms)
        terms = terms_of(request, group, now_ms)
        self._claimed = core.consumption.claim(topic, terms)
        if self._claimed:
            self._now_ms, self._claimed_at = now_ms, perf_counter()
            self._count(1)
            core.polling.wake(request.topic, request.group)
            self._read_ahead()
            return True
        if core.consumption.thawed.missed:
            return self._thaw(core.consumption.thawed.take_missed())
        if request.is_again or request.expired_only:
            return True
        self.sees_taken = not group.fifo and terms.filter is None
        return self._park(topic, group, now_ms)

    def _thaw(self, missed: list[Missed]) -> bool:
        """Wait for missing cold messages, or for messages in other queues. Raises the tier's error."""
        core, request = self._core, self._request
        now = core.loop.time()
        if self._thaw_failure is not None:
            raise self._thaw_failure
        if self._thawing is None or self._thawing.done():
            self._thawing = background(core.loop).start("cold reads of a pop", self._fetched(missed))
        self._thaw_until = self._thaw_until or max(self._deadline, now + THAW_SECONDS)
        if now >= self._thaw_until or core.polling.is_released:
            return True  # it comes all the same: the next pop finds it
        self._has_waited = True
        core.follow(core.registry.topics[request.topic])
        core.polling.park(request.topic, request.group, self)
        self._timer = core.loop.call_later(self._thaw_until - now, self._look_again)
        return False

    async def _fetched(self, missed: list[Missed]) -> None:
        try:
            await self._core.thawing.fetch(missed)
        except EntrepotError as error:
            self._thaw_failure = error
        except asyncio.CancelledError:
            self._thaw_failure = EntrepotError(Code.UNAVAILABLE, "the broker is stopping")
        if self._core.polling.unpark(self._request.topic, self._request.group, self):
            self.wake()

    def _read_ahead(self) -> None:
        thawed = self._core.consumption.thawed
        if thawed.missed or thawed.wished:
            self._core.thawing.fetch_soon([*thawed.take_missed(), *thawed.take_wished()])

    def _park(self, topic: Topic, group: ConsumerGroup, now_ms: int) -> bool:
        """Wait, unless the time is over."""
        core, request = self._core, self._request
        if core.consumption.has_more(topic, group, now_ms):
            core.loop.call_soon(self.wake)  # a filter passed over much: it goes on after others had their turn
            return False
        remaining = self._deadline - core.loop.time()
        if remaining <= 0 or core.polling.is_released:
            return True
        due = core.consumption.next_due(topic, group, now_ms)
        if due is not None:
            remaining = min(remaining, max(due - now_ms, 1) / 1000)
        self._has_waited = True
        core.follow(topic)
        core.polling.park(request.topic, request.group, self)
        self._timer = core.loop.call_later(remaining, self._look_again)
        return False

    def _look_again(self) -> None:
        self._timer = None
        if self._core.polling.unpark(self._request.topic, self._request.group, self):
            self.wake()

    def wake(self) -> None:
        self._core.commit.decide(self)

    # -- the end -------------------------------------------------------------------------------------------------

    def hand_out(self) -> Deliveries:
        """Return the claimed messages, which are durable by now. Raises the refusal of the decision."""
        if self._error is not None:
            raise self._error
        core, request = self._core, self._request
        if not self._claimed:
            return Deliveries()
        if core.engine.failure is not None:
            raise core.engine.failure
        self._count(-1)
        found = core.consumption.hand_out(request.topic, request.group, self._claimed, core.now_ms())
        core.measured.pop.observe(perf_counter() - self._claimed_at)
        core.tracer.delivered(request.topic, request.group, found, self._now_ms, request.consumer)
        return found

    def cancel(self) -> None:
        """Give back messages that the consumer, now gone, never saw."""
        core, request = self._core, self._request
        self._is_cancelled = True
        if core.polling.unpark(request.topic, request.group, self) and self._timer is not None:
            self._timer.cancel()
        if not self._claimed or core.engine.failure is not None:
            return
        self._count(-1)
        epoch = core.consumption.epoch
        places = [
            DeliveryPlaces(queue_id, epoch, since, run.stamp, [*range(run.first, run.first + run.length)])
            for _, queue_id, since, run, *_ in self._claimed
        ]
        with suppress(EntrepotError):  # no room for the record: they come back at their deadline
            core.consumption.change_invisible(
                request.topic, request.group, places, 0, release=True, suspend=True, now_ms=core.now_ms()
            )
        core.commit.submit(Confirmation())
        core.polling.wake(request.topic, request.group)

    def _count(self, sign: int) -> None:
        for queue, _, _, run, *_ in self._claimed:
            place = self._request.group, queue.topic, queue.queue_id
            self._unanswered[place] += sign * run.length
            if not self._unanswered[place]:
                del self._unanswered[place]


def readable_topic(core: BrokerCore, name: str) -> Topic:
    """Return the topic; a group's dead-letter topic is made if missing. Raises TOPIC_NOT_FOUND, FORBIDDEN."""
    topic = core.registry.topics.get(name)
    if topic is None:
        owner = dead_letter_group(name)
        if owner is None or owner not in core.registry.groups:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {name!r}")
        topic = Topic(name, queues=1)
        core.engine.append_record(RecordKind.METADATA, put_topic(topic), core.now_ms())
    if not topic.permission.readable:
        raise EntrepotError(Code.FORBIDDEN, f"topic {name!r} is not readable")
    return topic


def terms_of(request: PopRequest, group: ConsumerGroup, now_ms: int) -> PopTerms:
    """Return the terms of a request, completed from the group."""
    invisible_ms = group.invisible_seconds * 1000 if request.invisible_ms is None else request.invisible_ms
    expression = request.filter or group.filter
    wanted = None if expression is None else compile_filter(expression)
    if wanted is not None and wanted.accepts_all:
        wanted = None
    return PopTerms(
        group,
        request.max_messages,
        now_ms + invisible_ms,
        now_ms,
        wanted,
        request.attempt_id,
        request.is_again,
        request.expired_only,
        request.lifetime_ms,
    )
