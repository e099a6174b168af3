"""Inbound: from a remote into the store.

Messages wait here in order of arrival. All that wait become one append; after the store's confirmation they are
acknowledged to the remote, in that order. So is a message that the store refuses for good, else it would come again for
ever.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import paho.mqtt.client as paho

from entrepot.domain.clock import Clock
from entrepot.domain.message import Message, SystemProperty
from entrepot.gateway.bridge.connection import RemoteConnection
from entrepot.gateway.bridge.properties import from_paho
from entrepot.gateway.bridge.remapping import local_name
from entrepot.gateway.bridge.status import BridgeCounters
from entrepot.gateway.bridge.storing import Storing
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Refusals, Sender
from entrepot.gateway.settings import BridgeRemote
from entrepot.protocols.mqtt import packets
from entrepot.protocols.mqtt.mapping import to_message

MAX_BATCH: Final = 1000
"""Messages of one append."""
MAX_WAITING_BYTES: Final = 16 << 20
"""Bytes of payloads, names and properties that may wait here before reading stops."""

Publish = Callable[[Sequence[Message], Sender], Awaitable[Refusals]]
"""Keeps messages as the last of their names where they say so, then sends all. Raises EntrepotError."""


class Inbound:
    """The incoming messages of one connection."""

    def __init__(
        self,
        remote: BridgeRemote,
        sender: Sender,
        routes: Routes,
        clock: Clock,
        counters: BridgeCounters,
        publish: Publish,
    ) -> None:
        self._remote = remote
        self._rules = [rule for rule in remote.rules if rule.is_in]
        self._routes = routes
        self._clock = clock
        self._counters = counters
        self._storing = Storing(remote.name, lambda messages: publish(messages, sender), counters)
        self._waiting: deque[paho.MQTTMessage] = deque()
        self._waiting_bytes = 0
        self._some = asyncio.Event()
        self.connection: RemoteConnection | None = None

    @property
    def filters(self) -> list[tuple[str, int]]:
        """Filters to subscribe to, with the QoS."""
        return list({rule.remote_filter: rule.qos for rule in reversed(self._rules)}.items())

    def take(self, message: paho.MQTTMessage) -> None:
        """Take a message that has come."""
        self._waiting.append(message)
        self._waiting_bytes += _size_of(message)
        self._some.set()
        if self.connection is not None and not self._has_room:
            self.connection.pause_reading()

    @property
    def _has_room(self) -> bool:
        return len(self._waiting) < self._remote.receive_maximum and self._waiting_bytes < MAX_WAITING_BYTES

    async def run(self, connection: RemoteConnection) -> None:
        """Store incoming messages until cancelled."""
        while True:
            self._some.clear()
            while self._waiting:
                batch = [self._waiting[place] for place in range(min(len(self._waiting), MAX_BATCH))]
                await self._store(batch, connection)
                for message in batch:
                    self._waiting.popleft()
                    self._waiting_bytes -= _size_of(message)
                if self._has_room:
                    connection.resume_reading()
            await self._some.wait()

    async def _store(self, batch: Sequence[paho.MQTTMessage], connection: RemoteConnection) -> None:
        messages = [self._message(message) for message in batch]
        self._counters.ignored += messages.count(None)
        await self._storing.store([message for message in messages if message is not None])
        connection.acknowledge([message.mid for message in batch if message.qos])

    @property
    def last_refusal(self) -> str:
        """Why the store takes nothing now; empty while it does."""
        return self._storing.last_refusal

    def _message(self, given: paho.MQTTMessage) -> Message | None:
        """The message in our form, or None where no rule wants it."""
        try:
            name = local_name(self._rules, given.topic)
        except UnicodeDecodeError:
            name = None
        if name is None:
            return None
        publish = packets.Publish(
            name, bytes(given.payload), given.qos, given.mid, given.retain, given.dup, from_paho(given.properties)
        )
        topic, queue_id, filter_hash = self._routes.of(name)
        message = to_message(publish, topic, queue_id, filter_hash, self._clock.now_ms())
        system = {**message.system, SystemProperty.BRIDGE: self._remote.name}
        if given.retain:
            system[SystemProperty.RETAIN] = "1"
        message.system = system
        return message


def _size_of(message: paho.MQTTMessage) -> int:
    """Return what a waiting message counts, in bytes: a remote may send names and properties without a payload."""
    properties = message.properties
    others = 0 if properties is None else len(properties.pack())  # type: ignore[no-untyped-call]
    return len(message.payload) + len(message._topic) + others
