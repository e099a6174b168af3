"""Stage: a client's program before a running server, and a topic and a group that nobody else has."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from tests.support.rocketmq.peers.peer import Received, RefusedError, RocketMqPeer
from tests.support.waiting import PATIENCE_SECONDS, wait_until

WAIT_SECONDS = 3
"""Of a receive for which nothing may come."""
_WITHOUT_SETTINGS = 'because "settings" is null'


class Server(Protocol):
    """What the list asks of a server.  `endpoints`: one of each gateway."""

    @property
    def endpoints(self) -> list[str]: ...

    def make_topic(self, name: str, message_type: str) -> None:
        """Make a topic of a type."""

    def make_group(self, name: str, *, fifo: bool, lite_topic: str) -> None:
        """Make a group, in order or for the lite topics of a topic."""

    def stop(self, gateway: int) -> None:
        """End a gateway as an operator does."""

    def start(self, gateway: int) -> None:
        """Start it again, at the same place."""


@dataclass(frozen=True)
class Stage:
    """`peer` begins with its first use, and its messages are of this stage alone."""

    peer: RocketMqPeer
    server: Server
    topic: str = field(default_factory=lambda: f"t-{uuid.uuid4().hex[:12]}")
    group: str = field(default_factory=lambda: f"g-{uuid.uuid4().hex[:12]}")

    def prepare(self, message_type: str = "NORMAL", *, fifo: bool = False, lite: bool = False) -> None:
        """Make the topic, and the group."""
        self.server.make_topic(self.topic, message_type)
        self.server.make_group(self.group, fifo=fifo, lite_topic=self.topic if lite else "")

    @contextmanager
    def without(self, gateway: int) -> Iterator[None]:
        """A gateway is away for the length of a block, whatever becomes of it."""
        self.server.stop(gateway)
        try:
            yield
        finally:
            self.server.start(gateway)

    def producer(self, resolution: str = "unknown") -> Callable[..., dict[str, object]]:
        """Start a producer; what is returned sends a body by it."""
        handle = self.peer.producer(self.topic, resolution=resolution)
        return lambda body, **others: self.peer.send(handle, self.topic, body, **others)

    def consumer(self, kind: str = "tag", wanted: str = "*") -> int:
        """Start a simple consumer of the group."""
        return self.peer.simple(self.group, self.topic, (kind, wanted), wait=WAIT_SECONDS)

    def receive(self, consumer: int, count: int = 32, invisible: int = 30) -> list[Received]:
        """Receive.  RocketMQ's proxy refuses one that comes before the client's settings, which some SDKs do not wait
        for: that is nothing, an application tries again."""
        try:
            return self.peer.receive(consumer, count, invisible)
        except RefusedError as error:
            if _WITHOUT_SETTINGS not in str(error):
                raise
            return []

    def bodies(self, consumer: int, count: int) -> list[bytes]:
        """Receive and acknowledge until so many have come; sorted."""
        return sorted(each.body for each in self.take(consumer, count))

    def take(self, consumer: int, count: int, at_once: int = 32) -> list[Received]:
        """Receive and acknowledge until so many have come, `at_once` in a call; in the order in which they came."""
        found: list[Received] = []

        def came() -> bool:
            for message in self.receive(consumer, at_once):
                found.append(message)
                self.peer.ack(consumer, message)
            return len(found) >= count

        wait_until(came, lambda: str(found), 2 * PATIENCE_SECONDS)
        return found

    def one_by_one(self, consumer: int, count: int) -> list[bytes]:
        """Receive single messages and acknowledge each; in the order in which they came."""
        return [each.body for each in self.take(consumer, count, 1)]

    def finished(self, consumer: int, ids: list[object]) -> None:
        """Wait until a push consumer has finished these."""
        wait_until(
            lambda: set(ids) <= set(self.peer.done[consumer]),
            lambda: str(self.peer.pushed[consumer]),
            2 * PATIENCE_SECONDS,
        )
