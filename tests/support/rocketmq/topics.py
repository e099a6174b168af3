"""Topics of a RocketMQ cluster, filled with blocking calls over our own store in front of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.definitions.consumer_group import GroupStatus
from entrepot.domain.errors import EntrepotError, raise_if
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from entrepot.store_client.blocking import BlockingStore
from entrepot.store_client.blocking.clock import SystemClock
from entrepot.store_client.blocking.store_thread import StoreThread
from entrepot.store_client.rocketmq import RocketMqSettings, open_settings
from tests.support.spark.topic_log import Row, TopicWriter
from tests.support.waiting import PATIENCE_SECONDS


class RocketMqTopics:
    """As much of `BlockingStore` as `TopicWriter` uses.  `append` raises the failure of a batch."""

    def __init__(self, name_server: str, **others: Any) -> None:
        self._thread = StoreThread(PATIENCE_SECONDS)
        settings = RocketMqSettings((name_server,), **{"request_timeout_ms": 10_000, **others})
        self._store = self._thread.opened(lambda: open_settings(settings, SystemClock()), patiently=True)

    def close(self) -> None:
        self._thread.close(self._store.close)

    def put_topic(self, topic: Topic) -> Topic:
        return self._thread.ask(lambda: self._store.topology.put_topic(topic))

    def topic(self, name: str) -> Topic | None:
        return self._thread.now(lambda: self._store.topology.topic(name))

    def queues(self, topic: Topic) -> list[int]:
        return self._thread.now(lambda: list(self._store.topology.queues(topic).writable))

    def append(self, messages: Sequence[Message]) -> list[EntrepotError | None]:
        return self._thread.run(self._appended(messages))

    async def _appended(self, messages: Sequence[Message]) -> list[EntrepotError | None]:
        confirmation: Confirmation = self._store.messages.append(messages)
        done: asyncio.Future[EntrepotError | None] = asyncio.get_running_loop().create_future()
        confirmation.when_settled(done.set_result)
        raise_if(await done)
        return list(confirmation.refusals or [None] * len(messages))

    def log(self, topic: str) -> list[Row]:
        """All messages of a topic as a gateway reads them."""
        return self._thread.run(self._log(topic))

    async def _log(self, topic: str) -> list[Row]:
        found: list[Row] = []
        for bounds in await self._store.messages.bounds(topic):
            at = bounds.min_offset
            while at < bounds.max_offset:
                pulled = await self._store.messages.pull(topic, bounds.queue_id, at, 500)
                found += [(topic, each.queue_id, each.queue_offset, each.body) for each in pulled.messages]
                at = pulled.next_offset
        return found

    def groups(self) -> list[str]:
        return [group.name for group in self._thread.now(self._store.topology.groups)]

    def group_status(self, name: str) -> GroupStatus:
        return self._thread.run(self._store.topology.group_status(name))


class RocketMqWriter(TopicWriter):
    """Appends to topics of a RocketMQ cluster."""

    def __init__(self, name_server: str, **others: Any) -> None:
        self.topics = RocketMqTopics(name_server, **others)
        super().__init__(name_server, cast(BlockingStore, self.topics))
