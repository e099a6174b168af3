"""RocketMqFrontend: the shared parts of the RocketMQ calls."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import Store
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.rocketmq.access import RocketMqAccess
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings.grpc import GrpcSettings
from entrepot.gateway.settings.listeners import GroupsSettings
from entrepot.gateway.work.background_tasks import BackgroundTasks
from entrepot.protocols.rocketmq.names import Address
from entrepot.protocols.rocketmq.published import PublishLimits

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class RocketMqCounters:
    """Counts since the process began, except for `clients` and `waiting`, which are present numbers."""

    calls: int = 0
    refused: int = 0
    published: int = 0
    delivered: int = 0
    acknowledged: int = 0
    checks: int = 0
    clients: int = 0
    waiting: int = 0


class RocketMqFrontend:
    """Shared parts: `address` is the listener's; `identity` is this gateway's."""

    def __init__(
        self,
        store: Store,
        sender: Sender,
        topology: Topology,
        security: Security,
        settings: GrpcSettings,
        groups: GroupsSettings,
        clock: Clock,
        address: Address,
        identity: Identity,
    ) -> None:
        self.store, self.sender, self.topology = store, sender, topology
        self.settings, self.clock, self.address, self.identity = settings, clock, address, identity
        self.groups = groups
        self.access = RocketMqAccess(security, clock, settings.signature_tolerance_seconds)
        self.limits = PublishLimits(
            body_bytes=settings.max_message_bytes,
            properties=settings.max_properties,
            property_bytes=settings.max_property_bytes,
            lite_topic_characters=settings.lite_topic_characters,
        )
        self.counters = RocketMqCounters()
        self._loop = asyncio.get_running_loop()
        self.stopping: asyncio.Future[None] = self._loop.create_future()
        self.tasks = BackgroundTasks("RocketMQ")

    @property
    def is_stopping(self) -> bool:
        """True if no call may wait any more."""
        return self.stopping.done()

    def group_or_by_use(self, name: str) -> ConsumerGroup:
        """The group, or the one that its first pop will make. Raises CONSUMER_GROUP_NOT_FOUND where it makes none."""
        return self.store.topology.group(name) or self.groups.by_use(name)

    async def ensure_group(self, name: str) -> None:
        """Create a group unless it exists."""
        if self.store.topology.group(name) is None:
            await self.store.topology.put_group(self.groups.by_use(name))

    def check_room_to_wait(self) -> None:
        """Raise TOO_MANY_REQUESTS where no further call may wait for messages."""
        if self.counters.waiting >= self.settings.max_waiting_receives:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, "too many receives wait at this gateway")

    async def release(self, topic: str, group: str, deliveries: Sequence[Delivery]) -> None:
        """Release messages at once."""
        handles = [delivery.receipt_handle for delivery in deliveries]
        if handles:
            await self.store.consumption.change_invisible_duration(topic, group, handles, 0, release=True)

    async def wait_for(self, event: Coroutine[Any, Any, object], seconds: float) -> None:
        """Wait for an event, up to `seconds`, or until no call may wait any more."""
        waiting = self._loop.create_task(event)
        try:
            await asyncio.wait((waiting, self.stopping), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    def shut_down(self) -> None:
        """Let no call wait any more."""
        if not self.stopping.done():
            self.stopping.set_result(None)

    async def settle(self, seconds: float) -> None:
        """Wait up to `seconds` for the background tasks; then cancel them."""
        await self.tasks.settle(seconds)
        await self.tasks.cancel()
