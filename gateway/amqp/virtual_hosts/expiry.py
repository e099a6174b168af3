"""Expiry: timed work on queues: expired messages, unused queues, and leftovers of gateways that are gone.

Every gateway watches the queues that it knows may need work. Two may watch one queue without harm: each message is
removed once, and a deletion is idempotent.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.errors import NOT_THERE, EntrepotError
from entrepot.domain.key_value import KeyValue, KeyValueChange
from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest, Store
from entrepot.gateway.amqp.virtual_hosts.dead_letters import DeadLetters
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions
from entrepot.gateway.amqp.virtual_hosts.presence import ConsumerPresence
from entrepot.gateway.amqp.virtual_hosts.queue_feeds import QueueFeeds
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.member.member import Member
from entrepot.gateway.messaging.ticket import Ticket, give_back
from entrepot.gateway.work.periodic_work import PeriodicWork
from entrepot.protocols.amqp.deaths import DeathReason

LEASE_MS: Final = 10_000
HELD_MS: Final = 500
"""Pause before the next look at a queue whose first message a consumer holds."""
ARRIVAL_MS: Final = 30_000
"""Longest time until a published message is in its queue: its broker may be slow, or away for a while."""
SOON_MS: Final = 2_000
"""Usual limit of such a time."""
ARRIVAL_LOOK_MS: Final = 100
"""Pause before the next look for a message with a shorter life that had not arrived yet."""
LATE_LOOK_MS: Final = 1_000
"""Pause before such looks beyond `SOON_MS`."""
SERVED_MS: Final = 200
"""Time for a waiting consumer at another gateway to get a message that expires as it comes."""
ARRIVAL_STEPS: Final = 64
"""Part of a delay by which a look for delayed messages may be late, at least some 100 ms. Looks are at multiples of
powers of two, so they are few however many the messages."""
SLOWEST_MS: Final = 30_000
"""Longest interval between looks at a queue that may need work."""
SWEEP_SECONDS: Final = 1.0
"""Interval between looks for leftovers of gateways that are gone."""
USED_PREFIX: Final = "amqp-used/"
"""Prefix of keys with the last use of a queue with x-expires, by its Topic: epoch milliseconds."""

log = structlog.get_logger(__name__)


class Expiry:
    """The timed work.  Objects of members that are gone are leftovers."""

    def __init__(
        self,
        store: Store,
        definitions: Definitions,
        feeds: QueueFeeds,
        dead_letters: DeadLetters,
        clock: Clock,
        member: Member,
    ) -> None:
        self._store, self._definitions, self._feeds = store, definitions, feeds
        self._dead_letters, self._clock, self._member = dead_letters, clock, member
        self.presence: ConsumerPresence | None = None
        self._due: list[tuple[int, str]] = []
        self._at: dict[str, tuple[int, Vhost, Queue]] = {}
        """Time of the next look at a queue, by its Topic."""
        self._some = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.sweeping = PeriodicWork("queues of gateways that are gone", SWEEP_SECONDS, self._sweep)
        self._written: dict[str, int] = {}
        self._able_since_ms = clock.now_ms()
        """Time since when this gateway can tell the use of queues: their leases begin anew after an outage."""
        self._is_unable = False
        self.cut: Callable[[Queue], object] = lambda queue: None
        """Begins to drop what a queue has beyond its limit."""
        self._delayed: dict[tuple[int, str], tuple[Vhost, Queue]] = {}
        """Looks at queues for delayed messages, by their time and the queue's Topic."""
        self._arriving: dict[str, int] = {}
        """Time until which short-lived messages may still arrive, by the Topic of their queue."""
        definitions.on_queue_known.append(self._known)
        definitions.on_queue_gone.append(self._gone)

    async def start(self) -> None:
        """Delete the leftovers of earlier gateways, and watch from here on."""
        await self._sweep()
        self._able_since_ms = self._clock.now_ms()
        for vhost in self._definitions.vhosts():
            for queue in vhost.queues.values():
                self.look_at(vhost, queue, self._clock.now_ms())
        self._task = background().keep("expiry of queues", self._run)
        self.sweeping.start()

    async def close(self) -> None:
        await self.sweeping.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # -- when ----------------------------------------------------------------------------------------------------

    def _known(self, vhost: Vhost, queue: Queue) -> None:
        arguments = queue.declaration.arguments
        if arguments.message_ttl_ms is not None or arguments.expires_ms is not None or queue.is_limited:
            self.look_at(vhost, queue, self._clock.now_ms())

    def _gone(self, vhost: Vhost, queue: Queue) -> None:
        self._at.pop(queue.topic, None)
        self._written.pop(queue.topic, None)
        self._arriving.pop(queue.topic, None)

    def expect(self, vhost: Vhost, queue: Queue, at_ms: int) -> None:
        """Note a message on its way whose expiry in the queue is at `at_ms`."""
        until_ms = self._clock.now_ms() + ARRIVAL_MS
        at_ms += self._is_consumed_elsewhere(queue) * SERVED_MS
        if at_ms < until_ms:
            self._arriving[queue.topic] = until_ms
        self.look_at(vhost, queue, at_ms)

    def expect_arrival(self, vhost: Vhost, queue: Queue, at_ms: int) -> None:
        """Note a delayed message that comes into the queue at `at_ms`. Looks are kept while the process lives; one that
        starts looks at every queue."""
        now_ms = self._clock.now_ms()
        step_ms = 1 << max((at_ms - now_ms) // ARRIVAL_STEPS, ARRIVAL_LOOK_MS).bit_length() - 1
        key = -(-at_ms // step_ms) * step_ms, queue.topic
        if key not in self._delayed:
            self._delayed[key] = vhost, queue
            heapq.heappush(self._due, key)
            self._some.set()

    def look_at(self, vhost: Vhost, queue: Queue, at_ms: int) -> None:
        """Look at a queue at `at_ms`, when something may expire."""
        known = self._at.get(queue.topic)
        if known is None or at_ms < known[0]:
            self._at[queue.topic] = at_ms, vhost, queue
            heapq.heappush(self._due, (at_ms, queue.topic))
            self._some.set()

    async def _run(self) -> None:
        while True:
            self._some.clear()
            wait_ms = self._due[0][0] - self._clock.now_ms() if self._due else SLOWEST_MS
            if wait_ms > 0:
                try:
                    async with asyncio.timeout(wait_ms / 1000):
                        await self._some.wait()
                except TimeoutError:
                    pass
                continue
            at_ms, topic = heapq.heappop(self._due)
            if (delayed := self._delayed.pop((at_ms, topic), None)) is not None and _is_there(*delayed):
                self.expect(*delayed, at_ms)
            known = self._at.get(topic)
            if known is None or known[0] != at_ms:
                continue  # another look is planned
            del self._at[topic]
            try:
                await self._look(known[1], known[2])
            except EntrepotError as error:
                if error.code not in NOT_THERE:
                    log.warning("could not check a queue's expiry", queue=known[2].name, problem=error.message)
                    self.look_at(known[1], known[2], self._clock.now_ms() + HELD_MS)
            except Exception:
                log.exception("could not check a queue's expiry", queue=known[2].name)
                self.look_at(known[1], known[2], self._clock.now_ms() + SLOWEST_MS)

    async def _look(self, vhost: Vhost, queue: Queue) -> None:
        if not _is_there(vhost, queue):
            return
        expires_ms = queue.declaration.arguments.expires_ms
        if expires_ms is not None and not await self._is_used(vhost, queue, expires_ms):
            log.info("deleting a queue that nobody uses", queue=queue.name, vhost=vhost.name)
            await self._definitions.delete_queue(vhost, queue)
            return
        next_ms = await self._take_out(queue)
        self.cut(queue)
        if next_ms is None and queue.topic in self._arriving:
            now_ms = self._clock.now_ms()
            left_ms = self._arriving[queue.topic] - now_ms
            if left_ms > 0:
                next_ms = now_ms + (ARRIVAL_LOOK_MS if left_ms > ARRIVAL_MS - SOON_MS else LATE_LOOK_MS)
            else:
                del self._arriving[queue.topic]
        if next_ms is not None:
            self.look_at(vhost, queue, next_ms)

    # -- messages ------------------------------------------------------------------------------------------------

    async def _take_out(self, queue: Queue) -> int | None:
        """Remove expired messages; return the expiry of the next one, if any. A consumer that waits is served first:
        the one here expires them itself."""
        lifetime_ms = queue.declaration.arguments.message_ttl_ms
        request = PopRequest(
            queue.topic, queue.group, MAX_POP_MESSAGES, 0, LEASE_MS, expired_only=True, lifetime_ms=lifetime_ms
        )
        while not self._feeds.is_waiting(queue) and (tickets := await self._feeds.of(queue).leased.ask(request)):
            is_awaited = self._feeds.is_waiting(queue) or self._is_consumed_elsewhere(queue)
            fresh = self._fresh(queue, tickets) if is_awaited else []
            give_back(fresh)
            await self._dead_letters.bury(queue, [each for each in tickets if each not in fresh], DeathReason.EXPIRED)
            if fresh:
                return self._clock.now_ms() + SERVED_MS
        return await self._next_end(queue, lifetime_ms)

    def _is_consumed_elsewhere(self, queue: Queue) -> bool:
        return self.presence is not None and self.presence.elsewhere(queue) > 0

    def _fresh(self, queue: Queue, tickets: Sequence[Ticket]) -> list[Ticket]:
        """The messages that a consumer may be about to get: it has begun to wait here, or waits elsewhere."""
        before_ms, lifetime_ms = self._clock.now_ms() - SERVED_MS, queue.declaration.arguments.message_ttl_ms
        return [each for each in tickets if each.attempt == 1 and not each.is_over(before_ms, lifetime_ms)]

    async def _next_end(self, queue: Queue, lifetime_ms: int | None) -> int | None:
        """The earliest expiry among the first messages of the message queues."""
        now_ms = self._clock.now_ms()
        status = await self._store.topology.group_status(queue.group)
        heads = {each.queue_id: each for each in status.progress if each.topic == queue.topic}
        found: list[int] = []
        for bounds in await self._store.messages.bounds(queue.topic):
            progress = heads.get(bounds.queue_id)
            at = max(bounds.min_offset, 0 if progress is None else progress.committed_offset)
            if at >= bounds.max_offset:
                continue
            messages = await self._store.messages.read(queue.topic, bounds.queue_id, at, 1)
            end = end_of(messages[0], lifetime_ms) if messages else None
            if progress is not None and progress.in_flight:
                found.append(now_ms + HELD_MS)
            elif end is not None:
                found.append(end if end > now_ms else now_ms + ARRIVAL_LOOK_MS)  # a cluster tells its head late
        return min(found, default=None)

    # -- queues that nobody uses ---------------------------------------------------------------------------------

    def used(self, vhost: Vhost, queue: Queue) -> None:
        """Note the use of a queue: declared, basic.get, or a consumer here."""
        if queue.declaration.arguments.expires_ms is not None:
            self._written.setdefault(queue.topic, 0)
            self._written[queue.topic] = self._clock.now_ms()
            self.look_at(vhost, queue, self._clock.now_ms())

    async def _is_used(self, vhost: Vhost, queue: Queue, expires_ms: int) -> bool:
        """True if the queue was used recently, at any gateway; then the next look is planned. The time in which nobody
        could use it, as before the start, does not count."""
        now_ms = self._clock.now_ms()
        key = USED_PREFIX + queue.topic.replace("%", "_")
        elsewhere = self.presence.elsewhere(queue) if self.presence is not None else 0
        here = now_ms if self._feeds.consumers(queue) + elsewhere else self._written.get(queue.topic, 0)
        [kept] = await self._use_told(key)
        last = max(here, 0 if kept is None else int(kept.value))
        last = max(last, self._able_since_ms) if last else now_ms  # no use is recorded yet: its time begins now
        if kept is None or last - int(kept.value) > expires_ms // 4:
            await self._store.key_values.write([KeyValueChange(key, str(last).encode())])
        if now_ms - last >= expires_ms:
            await self._store.key_values.write([KeyValueChange(key, None)])
            return False
        again = min(last + expires_ms, now_ms + max(expires_ms // 4, 50)) if here == now_ms else last + expires_ms
        self.look_at(vhost, queue, again)
        return True

    async def _use_told(self, key: str) -> Sequence[KeyValue | None]:
        """Read a queue's last use. Raises what the store raises; an outage is noted, for nobody could use a queue."""
        try:
            found = await self._store.key_values.get([key])
        except EntrepotError:
            self._is_unable = True
            raise
        if self._is_unable:
            self._is_unable, self._able_since_ms = False, self._clock.now_ms()
        return found

    # -- gateways that are gone ----------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        """Delete exclusive and transient queues, and transient exchanges, whose gateway is gone."""
        vhosts = self._definitions.vhosts()
        owned = [(vhost, each) for vhost in vhosts for each in vhost.of_gateways.values()]
        transient = [(vhost, name, gateway) for vhost in vhosts for name, gateway in vhost.transient.items()]
        gateways = {queue.gateway for _, queue in owned} | {gateway for _, _, gateway in transient}
        with_consumers = self.presence.gateways if self.presence is not None else set()
        gone = await self._member.leases.gone((gateways | with_consumers) - {self._member.identity.incarnation})
        deleted = [await self._delete(vhost, queue) for vhost, queue in owned if queue.gateway in gone]
        if self.presence is not None:
            deleted += [await self._delete(*each) for each in self._unconsumed(gone)]
            if all(deleted):  # else a later look finds the queues by their consumers
                await self.presence.forget_gateways(gone)
        for vhost, name, gateway in transient:
            if gateway in gone:
                await self._definitions.delete_exchange(vhost, name)

    def _unconsumed(self, gone: set[str]) -> list[tuple[Vhost, Queue]]:
        """Auto-delete queues whose last consumers were at gateways that are gone."""
        topics = self.presence.only_at(gone) if self.presence is not None and gone else set()
        return [
            (vhost, queue)
            for vhost in (self._definitions.vhosts() if topics else ())
            for queue in vhost.queues.values()
            if queue.topic in topics and queue.declaration.auto_delete and not self._feeds.consumers(queue)
        ]

    async def _delete(self, vhost: Vhost, queue: Queue) -> bool:
        """Delete a leftover; False if the store refuses, for the others are to go."""
        if not _is_there(vhost, queue):
            return True
        log.info("deleting a queue of a gateway that is gone", queue=queue.name, vhost=vhost.name)
        try:
            await self._definitions.delete_queue(vhost, queue)
        except EntrepotError as error:
            log.warning("could not delete a queue", queue=queue.name, problem=error.message)
            return error.code in NOT_THERE
        return True


def _is_there(vhost: Vhost, queue: Queue) -> bool:
    return vhost.queue(queue.name) is queue


def end_of(message: StoredMessage, lifetime_ms: int | None) -> int | None:
    """The expiry of a message, or None for never."""
    ends = [] if lifetime_ms is None else [message.born_time_ms + lifetime_ms]
    expires_at_ms = message.time_ms(SystemProperty.EXPIRES_AT_MS)
    if expires_at_ms is not None:
        ends.append(expires_at_ms)
    return min(ends, default=None)
