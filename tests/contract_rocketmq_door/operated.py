"""A store in front of a cluster with its operator beside it: what is put is made there first, as with mqadmin."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.topic import Permission, Topic
from tests.support.rocketmq.sdk import RocketMqStore
from tests.support.stores.readable import ToldWhenReadable
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
        self._told = ToldWhenReadable(readable)
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
        return self._told.of(self.own_messages.append(messages))

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        return self._told.of(self.own_transactions.append_half(messages))
