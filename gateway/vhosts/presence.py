"""ConsumerPresence: at which gateways queues that go with their last consumer have any.

A key says that a gateway has consumers of a queue; who takes away the last key takes the queue away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from domain.key_value import KeyValueChange
from domain.ports import Store
from gateway.vhosts.vhost import Queue

PREFIX: Final = "amqp-consumers/"


class ConsumerPresence:
    """`gateway`: this one's name."""

    def __init__(self, store: Store, gateway: Callable[[], str]) -> None:
        self._store, self._gateway = store, gateway
        self._here: set[str] = set()

    async def here(self, queue: Queue) -> None:
        """Some consumer of the queue is at this gateway; durable when this returns."""
        if queue.topic not in self._here:
            await self._store.write([KeyValueChange(self._key(queue), b"")])
            self._here.add(queue.topic)

    async def gone(self, queue: Queue) -> bool:
        """No consumer of the queue is at this gateway any more; whether none is anywhere."""
        self._here.discard(queue.topic)
        await self._store.write([KeyValueChange(self._key(queue), None)])
        return not await self._store.scan(self._prefix(queue), limit=1)

    def _prefix(self, queue: Queue) -> str:
        return f"{PREFIX}{queue.topic}/"

    def _key(self, queue: Queue) -> str:
        return self._prefix(queue) + self._gateway()
