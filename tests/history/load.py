"""Load on a recorded store: producers, consumers of two groups, readers, tails and keepers of a key, until it is over;
then each group drains its messages, and everything is read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Final

from entrepot.domain.definitions.consumer_group import UNLIMITED_ATTEMPTS, ConsumerGroup
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.ports import PopRequest, Store, Tail
from entrepot.domain.topic import Topic
from tests.history.operations import Drained, Item, Whole
from tests.history.recorder import RecordedStore, item_of
from tests.support.waiting import until

TOPIC, QUEUES, KEY = "history", 2, "history/key"
GROUPS: Final = {"plain": False, "fifo": True}
"""Whether they are FIFO groups."""
POLL_MS: Final = 20
"""A consumer waits so long for messages."""
LONGEST_MS: Final = 3000
"""Longest invisible time."""
PAGE: Final = 100
EMPTY_ROUNDS: Final = 3
PAUSE_SECONDS: Final = 0.01
"""Between two calls of a client that waits for nothing: others have their turn, and files stay short."""


class Load:
    """`advance`: moves the store's clock; None where it goes by itself."""

    def __init__(
        self, store: Store, recorded: RecordedStore, chance: Random, advance: Callable[[int], None] | None
    ) -> None:
        self._store, self.recorded, self._chance, self._advance = store, recorded, chance, advance
        self.is_over = asyncio.Event()
        self._tails: dict[int, Tail] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def define(self) -> None:
        await self._store.topology.put_topic(Topic(TOPIC, queues=QUEUES))
        for name, is_fifo in GROUPS.items():
            await self._store.topology.put_group(ConsumerGroup(name, fifo=is_fifo, max_attempts=UNLIMITED_ATTEMPTS))

    def start(self) -> None:
        for queue in range(QUEUES):
            self._tails[queue] = self._store.messages.tail(TOPIC, queue, 0, self._tailed(queue))
        clients = [self._produce(f"p{number}") for number in range(3)]
        clients += [self._consume(f"c{number}", group) for number in range(2) for group in GROUPS]
        clients += [self._read("r0"), self._keep("k0"), self._keep("k1")]
        if self._advance is not None:
            clients.append(self._let_time_pass(self._advance))
        self._tasks = [asyncio.create_task(client) for client in clients]

    async def stop(self) -> None:
        self.is_over.set()
        await asyncio.gather(*self._tasks)

    def check(self) -> None:
        """Raise what ended a client, if something did."""
        for task in self._tasks:
            if task.done():
                task.result()

    def _tailed(self, queue: int) -> Callable[[list[StoredMessage]], None]:
        return lambda messages: self.recorded.note_tailed(f"tail {queue}", TOPIC, queue, messages)

    async def _pause(self, longest: float = PAUSE_SECONDS) -> None:
        try:
            await asyncio.wait_for(self.is_over.wait(), self._chance.uniform(0, longest))
        except TimeoutError:
            pass

    # -- clients -------------------------------------------------------------------------------------------------

    async def _produce(self, name: str) -> None:
        for batch in count():
            if self.is_over.is_set():
                return
            queue = self._chance.randrange(QUEUES)
            names = [f"{name}-{batch}-{place}" for place in range(self._chance.choice((1, 1, 1, 4)))]
            await self.recorded.publish(name, [self._message(each, queue) for each in names])
            await self._pause()

    def _message(self, name: str, queue: int) -> Message:
        body = f"{name} {'x' * self._chance.randrange(300)}".encode()
        group = self._chance.choice(("", "x", "y", "z"))
        return Message(TOPIC, body, sub_topic=TOPIC, queue_id=queue, message_id=name.encode(), message_group=group)

    async def _consume(self, name: str, group: str) -> None:
        recorded, chance, old = self.recorded, self._chance, list[str]()
        while not self.is_over.is_set():
            invisible_ms = chance.choice((50, 500, LONGEST_MS))
            request = PopRequest(TOPIC, group, chance.randint(1, 20), POLL_MS, invisible_ms)
            found = await recorded.pop(f"{name}-{group}", request, is_fifo=GROUPS[group])
            if not found:
                await self._pause()
                continue
            old += [each.receipt_handle for each in found]
            del old[:-200]
            settled = [each for each in found if chance.random() < 0.7]
            rest = [each for each in found if each not in settled]
            if settled:
                await recorded.acknowledge(f"{name}-{group}", TOPIC, group, settled)
            if rest and chance.random() < 0.6:
                await self._change(f"{name}-{group}", group, [each.receipt_handle for each in rest])
            if chance.random() < 0.3:
                await recorded.acknowledge(f"{name}-{group}", TOPIC, group, [chance.choice(old)])

    async def _change(self, name: str, group: str, handles: list[str]) -> None:
        chance, release = self._chance, self._chance.random() < 0.6
        delay_ms, suspend = chance.choice((0, 100, LONGEST_MS)), release and chance.random() < 0.3
        await self.recorded.change(name, TOPIC, group, handles, delay_ms, release=release, suspend=suspend)

    async def _read(self, name: str) -> None:
        ends = dict.fromkeys(range(QUEUES), 0)
        while not self.is_over.is_set():
            queue = self._chance.randrange(QUEUES)
            first = max(ends[queue] - self._chance.choice((0, 1, 50)), 0)
            found = await self.recorded.read(name, TOPIC, queue, first, PAGE)
            ends[queue] = max(ends[queue], first + len(found))
            await self._pause(2 * PAUSE_SECONDS)

    async def _keep(self, name: str) -> None:
        known = 0
        for number in count():
            if self.is_over.is_set():
                return
            if self._chance.random() < 0.5:
                expected = self._chance.choice((None, known))
                await self.recorded.write(name, KEY, f"{name}-{number}", expected)
            else:
                known = await self.recorded.get(name, KEY)
            await self._pause(2 * PAUSE_SECONDS)

    async def _let_time_pass(self, advance: Callable[[int], None]) -> None:
        while not self.is_over.is_set():
            advance(self._chance.choice((1, 5, 20)))
            await self._pause()

    # -- the end -------------------------------------------------------------------------------------------------

    async def end(self) -> None:
        """Once the load is over and the store is well: drain, and read all."""
        recorder = self.recorded.recorder
        for group in GROUPS:
            await self._drain(group)
            recorder.write(Drained(**recorder.end(recorder.begin("drain")), topic=TOPIC, group=group))
        for queue in range(QUEUES):
            items: list[Item] = []
            while found := await self._store.messages.read(TOPIC, queue, len(items), PAGE):
                items += map(item_of, found)
            await self._end_tail(self._tails[queue], len(items))
            times = recorder.end(recorder.begin("end"))
            recorder.write(Whole(**times, topic=TOPIC, queue=queue, items=tuple(items)))

    async def _end_tail(self, tail: Tail, end: int) -> None:
        await until(lambda: tail.next_offset >= end, "the tail is at the end")
        tail.close()

    async def _drain(self, group: str) -> None:
        empty = 0
        while empty < EMPTY_ROUNDS:
            request = PopRequest(TOPIC, group, PAGE, 0 if self._advance else 2 * LONGEST_MS, LONGEST_MS)
            found = await self.recorded.pop("drain", request, is_fifo=GROUPS[group])
            if found:
                await self.recorded.acknowledge("drain", TOPIC, group, found)
            is_answered = self.recorded.recorder.operations[-1].is_ok
            empty = empty + 1 if is_answered and not found else 0
            if not found and self._advance is not None:
                self._advance(2 * LONGEST_MS)
