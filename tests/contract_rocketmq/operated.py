"""A store in front of a cluster with its operator beside it: what is put is made there first, as with mqadmin."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn, Protocol

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.topic import Permission, Topic
from entrepot.gateway.facts import FileFacts
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.names import Namespaces
from entrepot.store_client.rocketmq import RocketMqSettings, RocketMqStore
from tests.support.rocketmq.cluster import RocketMqCluster
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced
from tests.support.waiting import PATIENCE_SECONDS

DEAD_LETTERS: Final = "%DLQ%"
_PERMISSIONS: Final = {Permission.NONE: 0, Permission.WRITE: 2, Permission.READ: 4, Permission.READ_WRITE: 6}
_turns: Final = itertools.count(1)


class Operator(Protocol):
    """Makes topics and groups at a cluster; RocketMqServer is one."""

    async def put_topic(self, topic: Topic) -> None: ...

    async def put_group(self, group: ConsumerGroup) -> None: ...


class OperatedStore(RocketMqStore):
    """Tests of the contract look at a confirmation's refusals at once, and take None for "nothing is refused".

    `readable`: waits until all that the cluster has confirmed can be received.  Confirmations are told after it."""

    def __init__(
        self,
        operator: Operator,
        *args: Any,
        readable: Callable[[], Awaitable[None]] | None = None,
        **others: Any,
    ) -> None:
        super().__init__(*args, **others)
        self.operator = operator
        self._readable = readable
        self._turn = asyncio.Lock()
        self._settling: set[asyncio.Task[None]] = set()
        self.own_messages, self.own_topology, self.own_transactions = self.messages, self.topology, self.transactions
        self.messages = replaced(self.messages, append=self.append)
        self.transactions = replaced(self.transactions, append_half=self.append_half)
        self.topology = replaced(
            self.topology, put_topics=self.put_topics, put_topic=self.put_topic, put_group=self.put_group
        )

    async def put_topics(self, topics: Sequence[Topic]) -> list[EntrepotError | None]:
        for topic in topics:
            await self.operator.put_topic(topic)
        return [await self.until_known(topic) for topic in topics]

    async def put_topic(self, topic: Topic) -> Topic:
        [refusal] = await self.put_topics([topic])
        if refusal is not None:
            raise refusal
        found = self.own_topology.topic(topic.name)
        assert found is not None
        return found

    async def until_known(self, topic: Topic) -> EntrepotError | None:
        """Ask for a topic until it is there, since name servers tell proxies of a new one in a while; the refusal."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                [refusal] = await self.own_topology.put_topics([topic])
                if refusal is None or refusal.code != Code.UNSUPPORTED:
                    return refusal
                await asyncio.sleep(0.05)

    async def put_group(self, group: ConsumerGroup) -> ConsumerGroup:
        await self.operator.put_group(group)
        return await self.own_topology.put_group(group)

    def append(self, messages: Sequence[Message]) -> Confirmation:
        return self._told_at_the_end(self.own_messages.append(messages))

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        return self._told_at_the_end(self.own_transactions.append_half(messages))

    def _told_at_the_end(self, inner: Confirmation) -> Confirmation:
        outer = Confirmation()

        def settle(failure: EntrepotError | None) -> None:
            outer.refusals = inner.refusals if any(inner.refusals or ()) else None
            outer.settle(failure)

        def settle_when_readable(failure: EntrepotError | None) -> None:
            task = asyncio.create_task(self._settle_in_turn(partial(settle, failure)))
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

        inner.when_settled(settle if self._readable is None else settle_when_readable)
        return outer

    async def _settle_in_turn(self, settle: Callable[[], None]) -> None:
        assert self._readable is not None
        async with self._turn:
            await self._readable()
            settle()


class PassingClock:
    """Implements `domain.clock.Clock` with the machine's time, which is the cluster's, too."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def advance(self, ms: int) -> NoReturn:
        raise NotImplementedError("a cluster's time passes by itself")


@dataclass(frozen=True, slots=True)
class OwnNames(Namespaces):
    """Names of one test: the proxy ignores resource namespaces, so each name has a beginning of its own."""

    beginning: str = ""

    def stored(self, name: str) -> str:
        """The name of a topic or group as brokers know it."""
        plain = name.removeprefix(DEAD_LETTERS)
        return name[: len(name) - len(plain)] + self.beginning + plain

    def resource(self, name: str) -> v2.Resource:
        return v2.Resource(name=self.stored(name))

    def name(self, resource: v2.Resource) -> str:
        return resource.name.replace(self.beginning, "", 1)


class RocketMqOperator:
    """Makes topics and groups at Apache RocketMQ.  Topics are at one broker, since tests count queues."""

    def __init__(self, cluster: RocketMqCluster) -> None:
        self.cluster = cluster
        self.names = OwnNames(beginning=f"n{next(_turns)}-")

    def open(self, clock: PassingClock, **others: Any) -> OperatedStore:
        """A store over the cluster in which every name is the test's own."""
        place = ("127.0.0.1", self.cluster.proxy_port)
        settings = RocketMqSettings((place,), **{"request_timeout_ms": 10_000, "answer_ms": 2_000, **others})
        opened = OperatedStore(self, settings, clock, readable=self.readable, facts=FileFacts(MemoryStore(clock)))
        opened._cluster.namespaces = self.names
        return opened

    async def put_topic(self, topic: Topic) -> None:
        name, may = self.names.stored(topic.name), _PERMISSIONS[topic.permission]
        await asyncio.to_thread(self.cluster.put_topic, name, topic.queues, brokers=1, permission=may)

    async def readable(self) -> None:
        await asyncio.to_thread(self.cluster.wait_readable)

    async def put_group(self, group: ConsumerGroup) -> None:
        name = self.names.stored(group.name)
        await asyncio.to_thread(self.cluster.put_group, name, fifo=group.fifo, max_attempts=group.max_attempts)


def full_message() -> Message:
    """Return a message with all that a RocketMQ message carries."""
    return Message(
        "t",
        b"body\0",
        sub_topic="t/line1",
        queue_id=0,
        qos=1,
        tag="red",
        keys=("k1", "k 2"),
        message_id=bytes(range(16)),
        born_time_ms=1_600_000_000_001,
        properties=(("b", "1"), ("a", "2"), ("a", b"\xff"), ("KEYS", "mine")),
        system={SystemProperty.CONTENT_TYPE: "text/plain", SystemProperty.CORRELATION_ID: b"\0\1"},
    )
