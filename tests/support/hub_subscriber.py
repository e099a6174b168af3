"""A subscriber of a DeliveryHub that keeps what it is given."""

from __future__ import annotations

import asyncio

from domain.clock import Clock
from gateway.delivery.hub import DeliveryHub
from protocols.mqtt.encoder import PublishTemplate
from store_client.remote import RemoteStore


class HubSubscriber:
    """Takes `room` deliveries, then no more."""

    version = 5
    has_backlog = False

    def __init__(self, room: int = 1 << 30) -> None:
        self.room = room
        self.lagging: dict[tuple[str, int], int] | None = None
        self.given: list[PublishTemplate] = []

    def deliver(self, template: PublishTemplate) -> bool:
        if len(self.given) >= self.room:
            return False
        self.given.append(template)
        return True

    def flush(self) -> None:
        pass

    @property
    def bodies(self) -> list[str]:
        """The bodies end the packets; those of tests are told from what is before them by a `!`."""
        return [bytes(each.head + each.tail).rpartition(b"!")[2].decode() for each in self.given]


async def follow(
    store: RemoteStore, clock: Clock, topic: str = "t", room: int = 1 << 30
) -> tuple[DeliveryHub, HubSubscriber]:
    """A hub of its own, and its subscriber, once everything stored from now on reaches it."""
    hub, subscriber = DeliveryHub(store, clock), HubSubscriber(room)
    hub.subscribe(subscriber, topic, 1, is_new=True)
    following = asyncio.Event()
    hub.when_following(following.set)
    async with asyncio.timeout(10):
        await following.wait()
    return hub, subscriber
