"""QueueFeed: one AMQP queue's consumers on this gateway, and the pop that feeds them.

Nothing is taken from the queue that no consumer has credit for; what comes goes to consumers in turn, those of the
highest priority first; what came too late for the last of them goes back to its place.  Gateways that consume from one
queue know nothing of each other; the store shares out.

Order: what a consumer gave back has its place again before more is taken.  A consumer that is the only one by promise
(single active, exclusive) is handed nothing before all that others held has come back, wherever they were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import structlog

from domain.clock import Clock
from domain.errors import NOT_THERE, EntrepotError
from domain.ports import MAX_POP_MESSAGES, PopRequest, Store
from gateway.delivery.leases import Leases, Ticket

WAIT_MS: Final = 20_000
"""How long a pop waits for messages."""
LEASE_MS: Final = 10_000
PAUSE_SECONDS: Final = 0.2
"""How long a feed waits when the store refuses."""
LINGER_SECONDS: Final = 0.002
"""How long a feed waits for more credit whose consumers have used most of theirs: they get more at a time then."""
TICK_SECONDS: Final = 0.5
"""How often is looked which leases are to be renewed."""
BACK_SECONDS: Final = LEASE_MS / 1000 + 1
"""How long the next only consumer waits for what others hold: the leases of a gateway that died are over then."""
BACK_LOOKS: Final = 200

log = structlog.get_logger(__name__)


class QueueConsumer(Protocol):
    """A consumer of a channel."""

    @property
    def priority(self) -> int: ...

    @property
    def exclusive(self) -> bool: ...

    @property
    def credit(self) -> int:
        """How many messages it can be handed now."""
        ...

    @property
    def held(self) -> int:
        """How many it has not settled."""
        ...

    def take(self, tickets: Sequence[Ticket]) -> None:
        """Send them; no more than `credit`."""
        ...

    def __hash__(self) -> int: ...


class QueueFeed:
    """`key`: namespace and name of the queue.  `sort_out`: takes out of what was popped what is not to be delivered.
    `on_idle`: called when the feed has no consumer and holds nothing."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        topic: str,
        group: str,
        sort_out: Callable[[list[Ticket]], list[Ticket]],
        on_idle: Callable[[QueueFeed], None],
    ) -> None:
        self.topic, self.group = topic, group
        self.is_single = False
        """Whether only the first consumer is handed anything (single active consumer)."""
        self._is_active = True
        """Whether anything is handed out here; else another gateway has the single active consumer."""
        self._only: QueueConsumer | None = None
        """The only consumer by promise, once all that others held has come back."""
        self._store = store
        self._sort_out = sort_out
        self._on_idle = on_idle
        self._loop = asyncio.get_running_loop()
        self.leases = Leases(store, clock, topic, group, lambda tickets, released: None)
        self.leases.lease_ms = LEASE_MS
        self.consumers: dict[QueueConsumer, None] = {}
        self._turn = 0
        self._getting = 0
        self._pop: asyncio.Task[None] | None = None
        self._ticking: asyncio.TimerHandle | None = self._loop.call_later(TICK_SECONDS, self._tick)
        self._is_closed = False
        self._is_paused = False

    # -- consumers -----------------------------------------------------------------------------------------------

    def add(self, consumer: QueueConsumer) -> None:
        self.consumers[consumer] = None
        self.look()

    def remove(self, consumer: QueueConsumer) -> None:
        """What it holds stays its channel's."""
        self.consumers.pop(consumer, None)
        if not self._credit() or consumer is self._only:
            self._stop()  # what it brings would be newer than what the consumer gives back
        if consumer is self._only:
            self._only = None
        self.look()

    def activate(self, is_active: bool) -> None:
        """Whether the single active consumer of the queue is at this gateway."""
        if self.is_single and self._is_active is not is_active:
            self._is_active = is_active
            self._only = None
            self.look()
            self.look_again()

    def look(self) -> None:
        """There may be credit now, or a message: pop, unless a pop is under way."""
        if self._pop is None and not self._is_closed and not self._is_paused and self._credit():
            self._pop = self._loop.create_task(self._run())
            self._pop.add_done_callback(self._popped)

    def look_again(self) -> None:
        """There may be less credit than the pop that waits asked for."""
        if self._pop is not None and not self._credit():
            self._stop()

    def _active(self) -> Sequence[QueueConsumer]:
        """Who may be handed something, in the order in which it is asked."""
        consumers = list(self.consumers)
        if self.is_single:
            return consumers[:1] if self._is_active else []
        if len(consumers) > 1:
            start = self._turn % len(consumers)
            consumers = consumers[start:] + consumers[:start]
            consumers.sort(key=lambda consumer: -consumer.priority)
        return consumers

    def _credit(self) -> int:
        return sum(consumer.credit for consumer in self._active())

    def _stop(self) -> None:
        if self._pop is not None:
            self._pop.cancel()  # what it has claimed by now goes back

    # -- the pop -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while count := min(self._credit(), MAX_POP_MESSAGES):
                if count < sum(consumer.held for consumer in self.consumers) // 2:
                    await asyncio.sleep(LINGER_SECONDS)
                    count = min(self._credit(), MAX_POP_MESSAGES)
                await self._have_all_back()
                request = PopRequest(self.topic, self.group, count, WAIT_MS, LEASE_MS)
                asked = self._loop.time()
                deliveries = await self._store.pop(request)
                if not deliveries and self._loop.time() - asked < WAIT_MS / 2000:
                    await asyncio.sleep(PAUSE_SECONDS)  # a store that is ending answers long polls at once
                if self._is_closed:
                    self.leases.release(self.leases.take(deliveries))
                    return
                if deliveries:
                    self._hand_out(self._sort_out(self.leases.take(deliveries)))
                    await asyncio.sleep(0)
        except EntrepotError as error:
            if error.code not in NOT_THERE:
                log.warning("a queue cannot be read now", topic=self.topic, problem=error.message)
            self._is_paused = True
            self._loop.call_later(PAUSE_SECONDS, self._go_on)

    async def _have_all_back(self) -> None:
        """Return when what was given back has its place again, and an only consumer may be handed the next message."""
        await self.leases.settle_releases()
        first = next(iter(self.consumers), None)
        if first is None or first is self._only or not (self.is_single or first.exclusive):
            return
        for _ in range(BACK_LOOKS):
            if await self._held_elsewhere() <= 0:
                break
            await asyncio.sleep(BACK_SECONDS / BACK_LOOKS)
        self._only = first

    async def _held_elsewhere(self) -> int:
        status = await self._store.group_status(self.group)
        in_flight = sum(each.in_flight for each in status.progress if each.topic == self.topic)
        return in_flight - self.leases.held

    def _popped(self, task: asyncio.Task[None]) -> None:
        """Also of one that was cancelled before it had begun."""
        self._pop = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a queue is not read any more", topic=self.topic, exc_info=error)
        elif not self._is_closed:
            self.look()

    def _go_on(self) -> None:
        self._is_paused = False
        self.look()

    def _hand_out(self, tickets: list[Ticket]) -> None:
        """One to each in turn."""
        parts: dict[QueueConsumer, list[Ticket]] = {}
        at = 0
        active = self._active()
        rooms = {consumer: consumer.credit for consumer in active}
        while at < len(tickets):
            best = max((consumer.priority for consumer in active if rooms[consumer] > 0), default=None)
            if best is None:
                break
            for consumer in active:
                if at < len(tickets) and rooms[consumer] > 0 and consumer.priority == best:
                    parts.setdefault(consumer, []).append(tickets[at])
                    rooms[consumer] -= 1
                    at += 1
                    self._turn += 1
        if at < len(tickets):
            self.leases.release(tickets[at:])
        for consumer, part in parts.items():
            consumer.take(part)

    # -- one message ---------------------------------------------------------------------------------------------

    async def get(self) -> Ticket | None:
        """The next message, if there is one now (basic.get)."""
        self._getting += 1
        try:
            while True:
                await self.leases.settle_releases()
                deliveries = await self._store.pop(PopRequest(self.topic, self.group, 1, 0, LEASE_MS))
                if not deliveries:
                    return None
                tickets = self._sort_out(self.leases.take(deliveries))
                if tickets:
                    return tickets[0]
        finally:
            self._getting -= 1

    # -- leases --------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.leases.renew_due()
        self._ticking = None if self._is_closed else self._loop.call_later(TICK_SECONDS, self._tick)
        if not self.consumers and self._pop is None and not self._getting and self.leases.is_idle:
            self._on_idle(self)

    async def settle(self) -> None:
        """Return when the store knows what was given back here, or cannot be told while the leases live."""
        if self._pop is not None and self._pop.cancelling():
            await asyncio.wait((self._pop,), timeout=1)
        await self.leases.settle()

    async def close(self) -> None:
        """Give back what is under way, and return when the store knows."""
        self._is_closed = True
        if self._ticking is not None:
            self._ticking.cancel()
        self._stop()
        await self.settle()
