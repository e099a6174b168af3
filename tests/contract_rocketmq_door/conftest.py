"""A RocketMqStore in front of our own RocketMQ door: what goes out by the one comes in by the other as it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.topic import Topic
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.rocketmq import sending
from entrepot.gateway.rocketmq.frontend import RocketMqFrontend
from entrepot.gateway.rocketmq.service import RocketMqService
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings.grpc import GrpcSettings
from entrepot.gateway.settings.listeners import GroupsSettings, TopicsSettings
from entrepot.gateway.settings.security import SecuritySettings
from entrepot.protocols.rocketmq.published import published
from tests.contract_rocketmq_door.operated import OperatedStore
from tests.support.clock import ManualClock
from tests.support.rocketmq.grpc_site import GrpcSite
from tests.support.rocketmq.sdk import RocketMqSettings
from tests.support.stores.model_store import MemoryStore

MAX_MESSAGE_BYTES = 4096


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def hold_back_limit() -> int:
    return 32_768


class OwnListener:
    """The door over a memory store, as a cluster that has an operator."""

    def __init__(self, clock: ManualClock, hold_back_limit: int) -> None:
        self.store = MemoryStore(clock, max_message_bytes=MAX_MESSAGE_BYTES, hold_back_limit=hold_back_limit)
        topology = Topology(self.store, TopicsSettings(auto_create=False))
        self.security = Security(self.store.key_values, SecuritySettings(), clock)
        sender = Sender(self.store, topology, clock)
        self.service = RocketMqService(
            RocketMqFrontend(
                self.store,
                sender,
                topology,
                self.security,
                GrpcSettings(transaction_check_seconds=0.05),
                GroupsSettings(),
                clock,
                ("127.0.0.1", 1),
                Identity("door"),
            )
        )
        self.server = GrpcSite(self.service.methods())
        self.port = self.server.port

    async def start(self) -> None:
        await self.security.start()
        await self.service.start()
        await self.server.start()

    async def put_topic(self, topic: Topic) -> None:
        await self.store.topology.put_topic(topic)

    async def put_group(self, group: ConsumerGroup) -> None:
        await self.store.topology.put_group(group)

    async def close(self) -> None:
        self.service.frontend.shut_down()
        self.store.consumption.release_waiting()
        await self.server.stop(1)
        await self.service.close()
        self.security.close()
        await self.store.close()


@pytest.fixture
async def cluster(
    clock: ManualClock, hold_back_limit: int, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[OwnListener]:
    def with_wish(wire: Any, *others: Any) -> Any:
        """Tests of the contract count on the queue that they name; the door chooses by itself."""
        found = published(wire, *others)
        found.message.queue_id = wire.system_properties.queue_id
        return found

    monkeypatch.setattr(sending, "published", with_wish)
    door = OwnListener(clock, hold_back_limit)
    await door.start()
    yield door
    await door.close()


@pytest.fixture
async def store(cluster: Any, clock: ManualClock) -> AsyncIterator[OperatedStore]:
    settings = RocketMqSettings((("127.0.0.1", cluster.port),), request_timeout_ms=10_000, answer_ms=10_000)
    opened = OperatedStore(cluster, settings, clock, side=MemoryStore(clock))
    yield opened
    await opened.close()
