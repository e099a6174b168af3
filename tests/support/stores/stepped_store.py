"""A store whose tails move by hand, as far as a DeliveryHub needs one: topics of one queue each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, compile_filter
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import NO_SYSTEM_PROPERTIES, StoredMessage
from entrepot.domain.ports import Pulled, Store
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.topic import Topic, TopicQueues, own_queues

OnMessages = Callable[[list[StoredMessage]], None]


class SteppedTail:
    """Hands over as many as it is told to."""

    def __init__(self, log: list[StoredMessage], on_messages: OnMessages) -> None:
        self._log = log
        self._on_messages = on_messages
        self.next_offset = len(log)

    def step(self, count: int = 1 << 30) -> None:
        messages = self._log[self.next_offset : self.next_offset + count]
        self.next_offset += len(messages)
        if messages:
            self._on_messages(messages)

    def when_begun(self, callback: Callable[[], None]) -> None:
        callback()

    def close(self) -> None:
        pass


class SteppedStore:
    """`logs`: by topic.  A message is stored at the millisecond of its offset."""

    def __init__(self, *names: str) -> None:
        self.names = list(names or ("t",))
        self.logs: dict[str, list[StoredMessage]] = {name: [] for name in self.names}
        self.tails: dict[str, SteppedTail] = {}
        self.min_offset = self.pulls = 0
        self.is_away = False
        self.wanted: list[FilterExpression | None] = []
        self.messages = self.topology = self
        self.numbers: dict[str, int] = {}
        """Numbers of topics (`Topology.made_at`)."""

    @property
    def port(self) -> Store:
        return cast(Store, self)

    def topics(self) -> list[Topic]:
        return [Topic(name, queues=1) for name in self.names]

    def topic(self, name: str) -> Topic | None:
        return Topic(name, queues=1) if name in self.names else None

    def made_at(self, name: str, queue_id: int) -> int:
        return self.numbers.get(name, 0)

    def queues(self, topic: Topic) -> TopicQueues:
        return own_queues(1, 1)

    def watch_topics(self, callback: Callable[[str], None]) -> Callable[[], None]:
        return lambda: None

    def tail(self, topic: str, queue_id: int, start: Position | None, on_messages: OnMessages) -> SteppedTail:
        self.tails[topic] = SteppedTail(self.logs.setdefault(topic, []), on_messages)
        return self.tails[topic]

    def refer(self, topic: str) -> None:
        """Let the last message of `t` be in a queue of another topic too: it keeps the name of its own."""
        self.logs[topic].append(replace(self.logs["t"][-1], queue_offset=len(self.logs[topic])))

    async def pull(
        self, topic: str, queue_id: int, offset: int, max_messages: int, wanted: FilterExpression | None = None
    ) -> Pulled:
        self.pulls += 1
        self.wanted.append(wanted)
        if self.is_away:
            raise EntrepotError(Code.UNAVAILABLE, "its broker is away")
        if not self.min_offset <= offset <= len(self.logs[topic]):
            raise EntrepotError(Code.ILLEGAL_OFFSET, "it is gone")
        log = self.logs[topic]
        read = log[offset : offset + max_messages]
        kept = read if wanted is None else [each for each in read if compile_filter(wanted).matches(each)]
        return Pulled(kept, offset + len(read), self.min_offset, len(log))

    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        if position.kind is PositionKind.TIME:
            return min(position.value, len(self.logs[topic]))
        return self.min_offset

    def append(
        self,
        count: int = 1,
        sub_topic: str = "t/x",
        qos: int = 1,
        system: dict[str, str | bytes] | None = None,
    ) -> None:
        """Messages with their offset for a body."""
        topic = sub_topic.partition("/")[0]
        log = self.logs[topic]
        for _ in range(count):
            offset = len(log)
            body = f"!{offset}".encode()
            stored = StoredMessage(
                topic, body, sub_topic, 0, qos, filter_hash=filter_hash(sub_topic), queue_offset=offset
            )
            stored.system = NO_SYSTEM_PROPERTIES if system is None else system
            log.append(stored)
