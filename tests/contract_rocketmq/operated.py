"""A store in front of a cluster, as tests of the contract use one."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.topic import Topic
from entrepot.gateway.facts import StoreFacts
from entrepot.protocols.rocketmq.remoting.names import Names
from entrepot.store_client.rocketmq import RocketMqSettings, RocketMqStore
from tests.support.rocketmq.cluster import RocketMqCluster
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.readable import ToldWhenReadable
from tests.support.stores.replaced import replaced

DEAD_LETTERS: Final = "%DLQ%"
_turns: Final = itertools.count(1)


class SettledStore(RocketMqStore):
    """Tests of the contract look at a confirmation's refusals at once, and take None for "nothing is refused".

    `readable`: waits until all that the cluster has confirmed can be received.  Confirmations are told after it.
    `broker`: the only one that gets topics, since tests count queues; empty: all."""

    def __init__(
        self,
        *args: Any,
        readable: Callable[[], Awaitable[None]] | None = None,
        broker: str = "",
        **others: Any,
    ) -> None:
        super().__init__(*args, **others)
        self._told = ToldWhenReadable(readable)
        self._broker = broker
        self.own_messages, self.own_topology, self.own_transactions = self.messages, self.topology, self.transactions
        self.messages = replaced(self.messages, append=self.append)
        self.transactions = replaced(self.transactions, append_half=self.append_half)
        self.topology = replaced(self.topology, put_topics=self.put_topics, put_topic=self.put_topic)

    async def put_topics(self, topics: Sequence[Topic]) -> list[EntrepotError | None]:
        return await self.own_topology.put_topics([self._placed(topic) for topic in topics])

    async def put_topic(self, topic: Topic) -> Topic:
        return await self.own_topology.put_topic(self._placed(topic))

    def _placed(self, topic: Topic) -> Topic:
        return replace(topic, placement=((self._broker, topic.queues),)) if self._broker else topic

    def append(self, messages: Sequence[Message]) -> Confirmation:
        return self._told.of(self.own_messages.append(messages))

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        return self._told.of(self.own_transactions.append_half(messages))


class PassingClock:
    """Implements `domain.clock.Clock` with the machine's time, which is the cluster's, too."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def advance(self, ms: int) -> NoReturn:
        raise NotImplementedError("a cluster's time passes by itself")


@dataclass(frozen=True, slots=True)
class OwnNames(Names):
    """Names of one test at a cluster that other tests use, too: each has a beginning of its own."""

    beginning: str = ""

    def resource(self, name: str) -> str:
        plain = name.removeprefix(DEAD_LETTERS)
        return name[: len(name) - len(plain)] + self.beginning + plain.replace("/", "%").replace("~", "||")

    def name(self, resource: str) -> str:
        """The name of a topic or group of this test; that of another one is none."""
        return resource.replace(self.beginning, "", 1).replace("||", "~") if self.beginning in resource else ""


def at_rocketmq(cluster: RocketMqCluster, clock: PassingClock, **others: Any) -> SettledStore:
    """A store over Apache RocketMQ in which every name is the test's own."""
    settings = RocketMqSettings((f"127.0.0.1:{cluster.name_server_port}",), **{"request_timeout_ms": 10_000, **others})

    async def readable() -> None:
        await asyncio.to_thread(cluster.wait_readable)

    opened = SettledStore(
        settings, clock, readable=readable, broker=cluster.brokers[0].name, facts=StoreFacts(MemoryStore(clock))
    )
    opened._cluster.names = OwnNames(beginning=f"n{next(_turns)}-")
    return opened


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
