"""A subscriber of a DeliveryHub that keeps what it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from entrepot.domain.clock import Clock
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Store
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.mqtt.fan_out.audience import QueueKey, Run, SubscriptionOptions
from entrepot.gateway.mqtt.fan_out.hub import DeliveryHub
from entrepot.protocols.mqtt.encoder import PublishTemplate

QOS_1 = SubscriptionOptions(1)


class HubSubscriber:
    """Takes `room` deliveries, then no more until it has room again."""

    def __init__(self, room: int = 1 << 30, *, client_id: str = "c", version: int = 5) -> None:
        self.room = room
        self.client_id = client_id
        self.version = version
        self.lagging: dict[QueueKey, int] | None = None
        self.resumed_at: dict[QueueKey, int] | None = None
        self.filters: dict[str, SubscriptionOptions] = {}
        self.given: list[PublishTemplate] = []
        self.messages: list[StoredMessage] = []
        self.identifiers: list[tuple[int, ...]] = []
        self.flushed = 0
        self.has_failed = False

    @property
    def topic_filters(self) -> Iterable[str]:
        return self.filters

    @property
    def has_backlog(self) -> bool:
        return len(self.given) >= self.room

    def deliver(self, run: Run) -> int:
        count = min(len(run.messages), max(self.room - len(self.given), 0))
        assert run.largest == max(template.size for template in run.templates)
        if run.data is not None:
            assert run.data == b"".join(template.packet(0) for template in run.templates)
        self.given += run.templates[:count]
        self.messages += run.messages[:count]
        self.identifiers += [run.identifiers] * count
        return count

    def flush(self) -> None:
        self.flushed = len(self.given)

    def fail(self) -> None:
        self.has_failed = True

    def subscribe(self, hub: DeliveryHub, topic_filter: str, options: SubscriptionOptions = QOS_1) -> None:
        is_new = topic_filter not in self.filters
        self.filters[topic_filter] = options
        hub.subscribe(self, topic_filter, options, is_new=is_new)

    @property
    def bodies(self) -> list[str]:
        """The bodies end the packets; those of tests are told from what is before them by a `!`."""
        return [bytes(each.head + each.tail).rpartition(b"!")[2].decode() for each in self.given]

    @property
    def offsets(self) -> list[int]:
        return [message.queue_offset for message in self.messages]


async def follow(
    store: Store, clock: Clock, topic: str = "t", room: int = 1 << 30
) -> tuple[DeliveryHub, HubSubscriber]:
    """A hub of its own, and its subscriber, once everything stored from now on reaches it."""
    hub, subscriber = DeliveryHub(store, clock, Incidents(clock)), HubSubscriber(room)
    subscriber.subscribe(hub, topic)
    following = asyncio.Event()
    hub.when_following(following.set)
    async with asyncio.timeout(10):
        await following.wait()
    return hub, subscriber
