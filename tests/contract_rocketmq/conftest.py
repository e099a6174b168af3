"""A RocketMqStore in front of a small cluster over loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from entrepot.store_client.rocketmq import RocketMqSettings, RocketMqStore
from tests.support.clock import ManualClock
from tests.support.rocketmq.server import RocketMqServer
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced

MAX_MESSAGE_BYTES = 4096


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def hold_back_limit() -> int:
    return 32_768


@pytest.fixture
def brokers() -> int:
    return 1


@pytest.fixture
def takes_wishes() -> bool:
    """Whether a message goes to the queue that it names: tests of the contract count on it."""
    return True


@pytest.fixture
async def cluster(
    clock: ManualClock, hold_back_limit: int, brokers: int, takes_wishes: bool
) -> AsyncIterator[RocketMqServer]:
    server = RocketMqServer(clock, brokers, max_message_bytes=MAX_MESSAGE_BYTES, hold_back_limit=hold_back_limit)
    server.takes_wishes = takes_wishes
    await server.start()
    yield server
    await server.close()


class OperatedStore(RocketMqStore):
    """The store with the cluster's operator beside it: what is put is made at the cluster first, as with mqadmin.

    Tests of the contract look at a confirmation's refusals at once, and take None for "nothing is refused"."""

    def __init__(self, cluster: RocketMqServer, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self.cluster_server = cluster
        self.own_messages, self.own_topology, self.own_transactions = self.messages, self.topology, self.transactions
        self.messages = replaced(self.messages, append=self.append)
        self.transactions = replaced(self.transactions, append_half=self.append_half)
        self.topology = replaced(
            self.topology, put_topics=self.put_topics, put_topic=self.put_topic, put_group=self.put_group
        )

    async def put_topics(self, topics: Sequence[Topic]) -> list[EntrepotError | None]:
        for topic in topics:
            await self.cluster_server.put_topic(topic)
        return await self.own_topology.put_topics(topics)

    async def put_topic(self, topic: Topic) -> Topic:
        await self.cluster_server.put_topic(topic)
        return await self.own_topology.put_topic(topic)

    async def put_group(self, group: ConsumerGroup) -> ConsumerGroup:
        await self.cluster_server.put_group(group)
        return await self.own_topology.put_group(group)

    def append(self, messages: Sequence[Message]) -> Confirmation:
        return _told_at_the_end(self.own_messages.append(messages))

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        return _told_at_the_end(self.own_transactions.append_half(messages))


def _told_at_the_end(inner: Confirmation) -> Confirmation:
    outer = Confirmation()

    def settle(failure: EntrepotError | None) -> None:
        outer.refusals = inner.refusals if any(inner.refusals or ()) else None
        outer.settle(failure)

    inner.when_settled(settle)
    return outer


def settings_of(cluster: RocketMqServer, **others: Any) -> RocketMqSettings:
    patient = {"request_timeout_ms": 10_000, "answer_ms": 10_000}  # a busy machine is no cluster that is away
    return RocketMqSettings((("127.0.0.1", cluster.port),), **{**patient, **others})


@pytest.fixture
async def store(cluster: RocketMqServer, clock: ManualClock) -> AsyncIterator[OperatedStore]:
    side = MemoryStore(clock)
    opened = OperatedStore(cluster, settings_of(cluster), clock, side=side)
    yield opened
    await opened.close()
