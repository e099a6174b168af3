"""ConsumerPresence: the consumers of a queue at each gateway.

`amqp-consumers/<topic>/<gateway>` has the time since when the first of a gateway's consumers of a queue is there, their
number, if one is exclusive, the least and the highest priority, and the priority of those that wait in vain. It goes
with the last consumer, or with the gateway. A queue with a single active consumer is served by the gateway of the one
that has been there for longest. Other gateways' consumers are known by the watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import msgspec
import structlog

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.ports import Store
from entrepot.gateway.amqp.feeds.consumers import FeedConsumer
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
from entrepot.gateway.key_values.watched_table import WatchedTable
from entrepot.gateway.member.member import Member

PREFIX: Final = "amqp-consumers/"
AGAIN_SECONDS: Final = 0.5

log = structlog.get_logger(__name__)


class PresenceRecord(msgspec.Struct, array_like=True, frozen=True):
    since_ms: int
    count: int
    is_exclusive: bool = False
    least: int = 0
    highest: int = 0
    hungry: int | None = None
    """The priority of consumers that wait for messages; None where none does, or where nobody has to know."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(PresenceRecord).decode


class ConsumerPresence:
    """The consumers here and elsewhere.

    Where no other gateway is on the store, nothing is written. `on_change` gets a Topic whose consumers at other
    gateways have changed. `given_back` returns when releases of these Topics are available to others, who are told
    only then.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        member: Member,
        on_change: Callable[[str], None],
        given_back: Callable[[Iterable[str]], Awaitable[None]],
    ) -> None:
        self._store, self._clock, self._identity, self._on_change = store, clock, member.identity, on_change
        self._given_back = given_back
        self._is_alone = member.is_alone
        self._former: set[str] = set()
        """Names of this gateway's records under earlier incarnations."""
        member.identity.on_renewed.append(self._renewed)
        self._mine: dict[str, PresenceRecord] = {}
        self._others: dict[str, dict[str, PresenceRecord]] = {}
        self._dirty: set[str] = set()
        self._writing: asyncio.Task[None] | None = None
        self._table = WatchedTable(store.key_values, PREFIX, _decode, _encode)
        self._table.on_change.append(self._changed_elsewhere)
        self.close = self._table.close

    async def start(self) -> None:
        """Learn the consumers of others. Raises what the store raises."""
        if not self._is_alone:
            await self._table.start()

    # -- here ----------------------------------------------------------------------------------------------------

    def changed(self, queue: Queue, consumers: Sequence[FeedConsumer]) -> None:
        """Set the consumers of the queue at this gateway."""
        if self._is_alone:
            return
        known = self._mine.get(queue.topic)
        if consumers:
            ranks = [each.priority for each in consumers]
            self._mine[queue.topic] = PresenceRecord(
                min(each.since_ms for each in consumers),
                len(consumers),
                any(each.exclusive for each in consumers),
                min(ranks),
                max(ranks),
                None if known is None else known.hungry,
            )
        else:
            self._mine.pop(queue.topic, None)
        self._dirty.add(queue.topic)
        self._begin_to_write()

    def hungry(self, topic: str, priority: int | None) -> None:
        """Note that consumers of this priority wait for messages here, or that none does."""
        known = self._mine.get(topic)
        if known is not None and known.hungry != priority:
            self._mine[topic] = msgspec.structs.replace(known, hungry=priority)
            self._dirty.add(topic)
            self._begin_to_write()

    def _renewed(self, before: str) -> None:
        """Tell all consumers again: what the incarnation before has told is forgotten with it."""
        self._former |= {f"{topic}/{before}" for topic in self._mine}
        self._dirty |= self._mine.keys()
        if self._dirty:
            self._begin_to_write()

    def _begin_to_write(self) -> None:
        if self._writing is None:
            self._writing = background().start("presence of consumers", self._write())

    async def settle(self) -> None:
        """Return when others can know."""
        while self._writing is not None:
            await asyncio.shield(self._writing)

    async def _write(self) -> None:
        try:
            await asyncio.sleep(0)  # one tick's changes are one write
            while self._dirty:
                topics, self._dirty = self._dirty, set()
                await self._given_back(topics)
                name, former = self._identity.incarnation, sorted(self._former)
                present = [self._table.change(f"{topic}/{name}", self._mine.get(topic)) for topic in sorted(topics)]
                try:
                    await self._table.write([*present, *(self._table.change(each, None) for each in former)])
                    self._former.difference_update(former)
                except Exception as error:  # noqa: BLE001 - the next write may do better
                    if self._store.condition.failure is not None:
                        return
                    if not isinstance(error, EntrepotError):
                        background().failed("presence of consumers", error)
                    log.warning("could not publish this gateway's consumers", problem=str(error))
                    self._dirty |= topics
                    await asyncio.sleep(AGAIN_SECONDS)
        finally:
            self._writing = None

    # -- elsewhere -----------------------------------------------------------------------------------------------

    def elsewhere(self, queue: Queue) -> int:
        """The number of consumers of the queue at other gateways."""
        return sum(record.count for record in self._others.get(queue.topic, {}).values())

    def is_exclusive_elsewhere(self, queue: Queue) -> bool:
        return any(record.is_exclusive for record in self._others.get(queue.topic, {}).values())

    def hungriest_elsewhere(self, topic: str) -> int | None:
        """The highest priority of consumers that wait for messages at other gateways."""
        hungry = [each.hungry for each in self._others.get(topic, {}).values() if each.hungry is not None]
        return max(hungry, default=None)

    def matters(self, topic: str) -> bool:
        """True if consumers of a lower priority than some here are at other gateways."""
        mine = self._mine.get(topic)
        return mine is not None and any(each.least < mine.highest for each in self._others.get(topic, {}).values())

    def is_first(self, topic: str) -> bool:
        """True if no consumer of the queue elsewhere is there for longer than all here."""
        mine = self._mine.get(topic)
        others = self._others.get(topic)
        if mine is None or not others:
            return True
        first = min((record.since_ms, name) for name, record in others.items())
        return (mine.since_ms, self._identity.incarnation) < first

    async def is_last(self, queue: Queue) -> bool:
        """True if no gateway has a consumer of the queue, as the store knows."""
        await self.settle()
        return self._is_alone or not await self._store.key_values.scan(f"{PREFIX}{queue.topic}/", limit=1)

    async def forget_gateways(self, gone: set[str]) -> None:
        """Forget gateways that are gone, with their consumers."""
        keys = [f"{PREFIX}{topic}/{name}" for topic, others in self._others.items() for name in others if name in gone]
        if keys:
            await self._table.write([KeyValueChange(key, None) for key in keys])

    def only_at(self, gateways: set[str]) -> set[str]:
        """The Topics of queues that other gateways consume, and of these only the given ones."""
        return {
            topic for topic, others in self._others.items() if topic not in self._mine and others.keys() <= gateways
        }

    @property
    def gateways(self) -> set[str]:
        """The other gateways that have consumers."""
        return {name for others in self._others.values() for name in others}

    def _changed_elsewhere(self, name: str, before: PresenceRecord | None, now: PresenceRecord | None) -> None:
        topic, _, gateway = name.rpartition("/")
        if gateway == self._identity.incarnation:
            if now is None and topic in self._mine:  # another deleted it
                self._dirty.add(topic)
                self._begin_to_write()
            return
        others = self._others.setdefault(topic, {})
        if now is None:
            others.pop(gateway, None)
        else:
            others[gateway] = now
        if not others:
            del self._others[topic]
        self._on_change(topic)
