"""QueueFeed: one AMQP queue's consumers on this gateway, and the pop that feeds them.

Only as many messages are popped as consumers have credit for. They go to consumers in turn, those of the highest
priority first; those too late for the last consumer are released. The store shares out among gateways that consume from
one queue; `presence.py` knows of them.

Order: messages that a consumer released have their place again before more are popped. A consumer
promised to be the only one (single active, exclusive) waits until all messages held by others are back, also those of a
consumer here that was cancelled while its channel lives. After a pop whose answer was lost, as with its broker, it
waits for the messages that this may have claimed, too. A message that still comes after newer ones is marked late.

Time to live: a message that comes while a consumer waits is delivered, also with a time of 0. Its age at the beginning
of the wait counts.

ADR 38: one leased consumer. Invariant: no more messages are popped than consumers have credit for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import structlog

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.errors import UNANSWERED, EntrepotError
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest, Store
from entrepot.gateway.amqp.feeds.consumers import QueueConsumer
from entrepot.gateway.amqp.feeds.hunger import Hunger
from entrepot.gateway.amqp.feeds.late_messages import LateMessages
from entrepot.gateway.amqp.feeds.narrow_frames import shared_out
from entrepot.gateway.amqp.feeds.parts_by_rank import parts_by_rank
from entrepot.gateway.amqp.feeds.rooms import Rooms
from entrepot.gateway.amqp.feeds.waiting import Waiting
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.passed_over import PassedOver, Untaken
from entrepot.gateway.messaging.ticket import Ticket

WAIT_MS: Final = 20_000
"""Longest wait of a pop for messages."""
LEASE_MS: Final = 10_000
LINGER_SECONDS: Final = 0.002
AFTER_FAULT_SECONDS: Final = 0.5
"""Pause of a queue's feed after an error of the program."""
NOBODY: Final = "the properties of the message fit no frame of the consumers here"
"""Wait of a feed for more credit where its consumers have used most of theirs: they get more at a time then."""
IDLE_SECONDS: Final = 0.5
"""Life of an unused feed: a client that gets one message often gets another."""
BACK_SECONDS: Final = LEASE_MS / 1000 + 1
"""Longest wait of the next only consumer for others' messages: by then the leases of a dead gateway are over."""
BACK_LOOKS: Final = 200

SortOut: TypeAlias = Callable[[list[Ticket], int | None], list[Ticket]]
"""Function that removes popped messages that are not to be delivered, and returns the others. It gets the time, in
epoch milliseconds, since when consumers have waited for them; None if none has."""

log = structlog.get_logger(__name__)


class QueueFeed:
    """The feed of one queue; `sort_out` removes popped messages that are not to be delivered. `on_idle` is called when
    the feed has no consumer and holds nothing."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        topic: str,
        group: str,
        sort_out: SortOut,
        on_idle: Callable[[QueueFeed], None],
        consumer: str = "",
        passed_over: PassedOver | None = None,
    ) -> None:
        self.topic, self.group = topic, group
        self.is_single = False
        """True if only the first consumer is handed messages (single active consumer)."""
        self._is_active = True
        """True if messages are handed out here; else another gateway has the single active consumer."""
        self._least: int | None = None
        """Least priority that is handed messages here: consumers of a higher one are hungry elsewhere."""
        self._hunger: Hunger | None = None
        """None where nobody else has to know it."""
        self._only: QueueConsumer | None = None
        """Consumer promised to be the only one, once all messages that others held have come back."""
        self._former: list[QueueConsumer] = []
        """Consumers that have gone while their channel keeps messages."""
        self._unanswered = 0
        self.waiting = Waiting(clock)
        self._late = LateMessages()
        self._store = store
        self._sort_out, self._on_idle, self._passed_over = sort_out, on_idle, passed_over
        """The treatment of messages that consumers cannot take; None where they all can."""
        self._loop = asyncio.get_running_loop()
        self.leased = LeasedConsumer(
            store,
            clock,
            topic,
            group,
            lease_ms=LEASE_MS,
            consumer=consumer,
            on_end=self._ended,
            on_idle=self._look_if_idle,
        )
        self.on_back: Callable[[], object] = lambda: None
        """Callback for messages that are free again."""
        self.consumers: dict[QueueConsumer, None] = {}
        self._turn = self._getting = 0
        self._pop: asyncio.Task[None] | None = None
        self._is_closed = False
        self._idling: asyncio.TimerHandle | None = None
        self._look_if_idle()

    # -- consumers -----------------------------------------------------------------------------------------------

    def add(self, consumer: QueueConsumer) -> None:
        self.consumers[consumer] = None
        self.look()

    def remove(self, consumer: QueueConsumer) -> None:
        """Remove a consumer; its channel keeps its messages."""
        self.consumers.pop(consumer, None)
        self._former = [each for each in (*self._former, consumer) if each.held]
        if not self._credit() or consumer is self._only:
            self._stop()  # messages of the pop would be newer than those the consumer releases
        if consumer is self._only:
            self._only = None
        self.look()
        self._look_if_idle()

    def activate(self, is_active: bool) -> None:
        """Note if the single active consumer of the queue is at this gateway."""
        if self.is_single and self._is_active is not is_active:
            self._is_active = is_active
            self._only = None
            self.look()
            self.look_again()

    def yield_below(self, least: int | None) -> None:
        """Hand messages only to consumers of this priority and above; None: to all."""
        if self._least != least:
            self._least = least
            self.look()
            self.look_again()

    def hungry_for(self, tell: Callable[[int | None], None] | None) -> None:
        """Tell others when consumers here wait for messages; None: no more."""
        if (self._hunger is None) is (tell is None):
            return
        if self._hunger is not None:
            self._hunger.close()
        self._hunger = None if tell is None else Hunger(self._loop, tell)
        if self._hunger is not None and self._pop is not None:
            self._stop()  # the next one is told of

    def look(self) -> None:
        """Pop if there is credit, unless a pop is under way."""
        if self._pop is None and not self._is_closed and self._credit():
            self.waiting.begin(self.leased.pauses)
            self._pop = self._loop.create_task(self._run())
            self._pop.add_done_callback(self._popped)

    def look_again(self) -> None:
        """Stop the waiting pop if no credit is left."""
        if self._pop is not None and not self._credit():
            self._stop()

    def is_active(self, consumer: object) -> bool:
        """True unless messages go to the single active consumer, and it is another one."""
        return not self.is_single or (self._is_active and next(iter(self.consumers), None) is consumer)

    def _active(self) -> Sequence[QueueConsumer]:
        """The consumers that may be handed messages, in the order of asking."""
        consumers = list(self.consumers)
        if self.is_single:
            return consumers[:1] if self._is_active else []
        if (least := self._least) is not None:
            consumers = [consumer for consumer in consumers if consumer.priority >= least]
        if len(consumers) > 1:
            start = self._turn % len(consumers)
            consumers = consumers[start:] + consumers[:start]
            consumers.sort(key=lambda consumer: -consumer.priority)
        return consumers

    def _credit(self) -> int:
        active = self._active()
        return active[0].credit if len(active) == 1 else Rooms(active).total

    def _stop(self) -> None:
        if self._pop is not None:
            self._pop.cancel()  # the messages claimed by now are released

    # -- the pop -------------------------------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """True while a consumer here waits for messages: it is served before they expire."""
        return self._pop is not None and self.waiting.since_ms is not None

    async def _run(self) -> None:
        while count := min(self._credit(), MAX_POP_MESSAGES):
            self.waiting.begin(self.leased.pauses)
            if count < sum(consumer.held for consumer in self.consumers) // 2:
                await asyncio.sleep(LINGER_SECONDS)
                count = min(self._credit(), MAX_POP_MESSAGES)
            if self.leased.unanswered > self._unanswered:  # the messages of any lost answer are older
                self._unanswered, self._only = self.leased.unanswered, None
            await self._have_all_back()
            popped = await self._popped_by_rank(count)
            try:
                self.waiting.has_come(popped)
                tickets = self._sort_out(popped, self.waiting.since_ms)
                self._late.mark(tickets)
                self._hand_out(tickets)
                if not self._credit():
                    self.waiting.end()
            except Exception:
                self.leased.release([ticket for ticket in popped if ticket.member is None])  # those nobody got
                raise
            await asyncio.sleep(0)

    async def _popped_by_rank(self, count: int) -> list[Ticket]:
        """Pop; others hear of a wait, if it matters to them."""
        hunger = self._hunger
        if hunger is None:
            return await self.leased.pop(self._request(count))
        priority = max((each.priority for each in self._active() if each.credit), default=0)
        hunger.waits(priority)
        popped: list[Ticket] = []
        try:
            popped = await self.leased.pop(self._request(count))
        finally:
            hunger.has_come(priority, is_enough=not 0 < len(popped) < count)
        return popped

    def _request(self, count: int, wait_ms: int = WAIT_MS) -> PopRequest:
        return PopRequest(self.topic, self.group, count, wait_ms)

    async def _have_all_back(self) -> None:
        """Return when released messages have their place again, and an only consumer may have the next one."""
        await self.leased.settle_releases()
        first = self._promised()
        for _ in range(BACK_LOOKS):
            if first is None:
                return
            try:
                await self.leased.settle()  # else endings that the store does not know yet would hide lost messages
                if await self._held_elsewhere() <= 0 and not any(each.held for each in self._former):
                    break
            except EntrepotError as refusal:
                await self.leased.refused(refusal)
            await asyncio.sleep(BACK_SECONDS / BACK_LOOKS)
            first = self._promised()
        self._only = first

    def _promised(self) -> QueueConsumer | None:
        """The consumer that is to be the only one, and is not yet."""
        first = next(iter(self.consumers), None)
        is_promised = first is not None and first is not self._only and (self.is_single or first.exclusive)
        return first if is_promised else None

    async def _held_elsewhere(self) -> int:
        status = await self._store.topology.group_status(self.group)
        in_flight = sum(each.in_flight for each in status.progress if each.topic == self.topic)
        return in_flight - self.leased.held

    def _popped(self, task: asyncio.Task[None]) -> None:
        """Start the next pop, also after a cancellation before the start; it leaves a refusing store alone."""
        self._pop = None
        if not self._credit():
            self.waiting.end()
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, EntrepotError):
            background(self._loop).failed("AMQP queues", error)
            self._loop.call_later(AFTER_FAULT_SECONDS, self.look)
        elif not self._is_closed:
            self.look()
        self._look_if_idle()

    def _hand_out(self, tickets: list[Ticket]) -> None:
        active = self._active()
        if not active or not tickets:
            self.leased.release(tickets)
            return
        if self._passed_over is not None and any(each.is_narrow for each in active):
            self._hand_out_narrow(tickets, active, self._passed_over)
            return
        if len(active) == 1 and active[0].credit >= len(tickets):
            active[0].take(tickets)
            return
        each, rooms = -(-len(tickets) // len(active)), Rooms(active)
        is_even = rooms.are_apart and all(
            other.priority == active[0].priority and other.credit >= each for other in active
        )
        if is_even:
            self._turn += len(tickets)
            for place, consumer in enumerate(active[: len(tickets)]):
                consumer.take(tickets[place :: len(active)])
            return
        self._hand_out_by_rank(tickets, active, rooms)

    def _hand_out_narrow(self, tickets: list[Ticket], active: Sequence[QueueConsumer], passed_over: PassedOver) -> None:
        """Hand out messages where some may not fit the frames of a consumer."""
        shared = shared_out(tickets, active)
        self._turn += len(tickets)
        self.leased.release(shared.back)
        passed_over.wait(shared.waiting)
        if shared.untaken:
            untaken = [Untaken(ticket, NOBODY) for ticket in shared.untaken]
            passed_over.note(untaken)
            passed_over.fail(untaken)
        for consumer, part in shared.parts.items():
            consumer.take(part)

    def _hand_out_by_rank(
        self, tickets: list[Ticket], active: Sequence[QueueConsumer], rooms: Rooms[QueueConsumer]
    ) -> None:
        """Hand out messages where consumers differ in priority, or lack credit."""
        parts, left = parts_by_rank(tickets, active, rooms)
        self._turn += len(tickets) - len(left)
        if left:
            self.leased.release(left)
        for consumer, part in parts.items():
            consumer.take(part)

    # -- one message ---------------------------------------------------------------------------------------------

    async def get(self) -> Ticket | None:
        """Return the next message, if there is one now (basic.get)."""
        self._getting += 1
        try:
            while True:
                await self.leased.settle_releases()
                found = await self._ask_for_one()
                if not found:
                    return None
                tickets = self._sort_out(found, None)
                if tickets:
                    self._late.mark(tickets)
                    return tickets[0]
        finally:
            self._getting -= 1
            self._look_if_idle()

    async def _ask_for_one(self) -> list[Ticket]:
        """Pop one message; repeat after a lost answer, as its message comes again when its lease ends. A queue whose
        messages are all held is then not reported as empty."""
        try:
            return await self.leased.ask(self._request(1, 0))
        except EntrepotError as refusal:
            if refusal.code not in UNANSWERED:
                raise
            found = await self.leased.ask(self._request(1, 0))
            if not found and await self._held_elsewhere() > 0:
                raise
            return found

    # -- the end -------------------------------------------------------------------------------------------------

    @property
    def _is_idle(self) -> bool:
        return not self.consumers and self._pop is None and not self._getting and self.leased.is_idle

    def _look_if_idle(self) -> None:
        if self._is_idle and self._idling is None and not self._is_closed:
            self._idling = self._loop.call_later(IDLE_SECONDS, self._end_if_idle)

    def _end_if_idle(self) -> None:
        self._idling = None
        if self._is_idle and not self._is_closed:
            self._on_idle(self)

    def _ended(self, tickets: Sequence[Ticket], is_back: bool) -> None:
        if is_back:
            self.on_back()

    async def settle(self) -> None:
        """Return when the store knows all releases, or cannot be told while the leases live."""
        await self._stopped()
        await self.leased.settle()

    async def _stopped(self) -> None:
        if self._pop is not None and self._pop.cancelling():
            await asyncio.wait((self._pop,), timeout=1)

    async def close(self) -> None:
        """Release the messages under way, and return when the store knows."""
        self._is_closed = True
        self.hungry_for(None)
        if self._idling is not None:
            self._idling.cancel()
        self._stop()
        await self._stopped()
        await self.leased.close()
