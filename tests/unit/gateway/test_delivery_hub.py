"""The delivery hub over a store whose tails move by hand: nothing twice, nothing lost, nothing out of order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from domain.errors import Code, EntrepotError
from domain.filter_hash import filter_hash
from domain.message import StoredMessage
from domain.ports import Store
from domain.position import Position
from domain.topic import Topic, TopicQueues, own_queues
from gateway.delivery.hub import DeliveryHub
from protocols.mqtt.encoder import PublishTemplate
from tests.support.waiting import until


class SteppedTail:
    """Hands over as many as it is told to."""

    def __init__(self, log: list[StoredMessage], on_messages: Callable[[list[StoredMessage]], None]) -> None:
        self._log = log
        self._on_messages = on_messages
        self.next_offset = len(log)

    def step(self, count: int) -> None:
        messages = self._log[self.next_offset : self.next_offset + count]
        self.next_offset += len(messages)
        self._on_messages(messages)

    def when_begun(self, callback: Callable[[], None]) -> None:
        callback()

    def close(self) -> None:
        pass


class SteppedStore:
    """One topic of one queue."""

    def __init__(self) -> None:
        self.log: list[StoredMessage] = []
        self.tails: list[SteppedTail] = []
        self.min_offset = self.reads = 0

    def topics(self) -> list[Topic]:
        return [Topic("t", queues=1)]

    def topic(self, name: str) -> Topic | None:
        return Topic("t", queues=1) if name == "t" else None

    def queues(self, topic: Topic) -> TopicQueues:
        return own_queues(1, 1)

    def watch_topics(self, callback: Callable[[str], None]) -> Callable[[], None]:
        return lambda: None

    def tail(self, topic: str, queue_id: int, from_offset: int | None, on_messages: Any) -> SteppedTail:
        self.tails.append(SteppedTail(self.log, on_messages))
        return self.tails[-1]

    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        self.reads += 1
        if from_offset < self.min_offset:
            raise EntrepotError(Code.ILLEGAL_OFFSET, "it is gone")
        return self.log[from_offset : from_offset + max_messages]

    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        return self.min_offset

    def append(self, count: int) -> None:
        for _ in range(count):
            body = str(len(self.log)).encode()
            self.log.append(
                StoredMessage("t", body, "t/x", 0, 1, filter_hash=filter_hash("t/x"), queue_offset=len(self.log))
            )


class Clock:
    def now_ms(self) -> int:
        return 1_000


class Subscriber:
    """Takes `room` messages and no more."""

    version = 4

    def __init__(self, room: int) -> None:
        self.room = room
        self.got: list[int] = []
        self.lagging: dict[tuple[str, int], int] | None = None

    @property
    def has_backlog(self) -> bool:
        return self.room == 0

    def deliver(self, template: PublishTemplate) -> bool:
        if not self.room:
            return False
        self.room -= 1
        self.got.append(int(template.packet(1).rpartition(b"\x01")[2]))
        return True

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("behind", [0, 1, 5, 300, 2000])
async def test_catching_up_while_the_tail_is_behind(behind: int) -> None:
    """What the tail has not reached yet comes from the tail, and only from there."""
    store = SteppedStore()
    hub = DeliveryHub(cast("Store", store), Clock())
    slow, quick = Subscriber(room=5), Subscriber(room=100_000)
    for subscriber in (slow, quick):
        hub.subscribe(subscriber, "t/#", 1, is_new=True)
    (tail,) = store.tails
    store.append(20 + behind)
    tail.step(20)
    assert slow.got == list(range(5))
    slow.room = 100_000
    hub.catch_up(slow)
    await until(lambda: not slow.lagging, "it has caught up")
    assert slow.got == list(range(20))
    while tail.next_offset < len(store.log):
        tail.step(64)
    assert slow.got == quick.got == list(range(20 + behind))
    assert hub.delivered == 2 * (20 + behind)


async def test_falling_behind_again_and_again() -> None:
    store = SteppedStore()
    hub = DeliveryHub(cast("Store", store), Clock())
    slow = Subscriber(room=3)
    hub.subscribe(slow, "t/x", 1, is_new=True)
    (tail,) = store.tails
    for _ in range(40):
        store.append(30)
        tail.step(30)
        slow.room = 7
        hub.catch_up(slow)
        await until(lambda: not slow.room or not slow.lagging, "it read what it had room for")
    slow.room = 100_000
    hub.catch_up(slow)
    await until(lambda: not slow.lagging, "it has caught up")
    assert slow.got == list(range(40 * 30))


async def test_topics_of_namespaces_are_not_followed():
    store = SteppedStore()
    store.topics = lambda: [Topic("team/t", queues=1), Topic("t", queues=1)]  # type: ignore[method-assign]
    store.topic = lambda name: Topic(name, queues=1)  # type: ignore[method-assign]
    hub = DeliveryHub(cast(Store, store), Clock())
    hub.subscribe(cast(Any, object()), "#", 1, is_new=True)
    hub.subscribe(cast(Any, object()), "team/t", 1, is_new=True)
    assert len(store.tails) == 1


async def test_catching_up_behind_what_is_gone() -> None:
    """Who lags where retention has been goes on at the beginning of what is left, at once."""
    store = SteppedStore()
    hub = DeliveryHub(cast("Store", store), Clock())
    slow = Subscriber(room=5)
    hub.subscribe(slow, "t/#", 1, is_new=True)
    (tail,) = store.tails
    store.append(1000)
    tail.step(1000)
    store.min_offset = 900
    slow.room = 100_000
    hub.catch_up(slow)
    await until(lambda: not slow.lagging, "it has caught up")
    assert slow.got == [*range(5), *range(900, 1000)]
    assert store.reads <= 3
