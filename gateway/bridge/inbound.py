"""Inbound: from a remote into the store.

Messages wait here in order of arrival. All that wait become one append; after the store's confirmation they are
acknowledged to the remote, in that order. A passing refusal is retried, with everything after it. A lasting refusal is
logged, counted, and acknowledged, else the message would come again for ever.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import paho.mqtt.client as paho
import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.gateway.bridge.connection import RemoteConnection
from entrepot.gateway.bridge.properties import from_paho
from entrepot.gateway.bridge.remapping import local_name
from entrepot.gateway.bridge.status import BridgeCounters
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Refusals, Sender
from entrepot.gateway.settings import BridgeRemote
from entrepot.protocols.mqtt import packets
from entrepot.protocols.mqtt.mapping import to_message

MAX_BATCH: Final = 1000
"""Messages of one append."""
MAX_WAITING_BYTES: Final = 16 << 20
"""Payload bytes that may wait here before reading stops."""
RETRY_SECONDS: Final = 0.5
"""Pause before the next try after a passing refusal of the store."""

_FOR_GOOD: Final = frozenset(
    (
        Code.BAD_REQUEST,
        Code.ILLEGAL_TOPIC,
        Code.FORBIDDEN,
        Code.ILLEGAL_DELIVERY_TIME,
        Code.MESSAGE_BODY_TOO_LARGE,
        Code.MESSAGE_PROPERTIES_TOO_LARGE,
        Code.UNSUPPORTED,
    )
)
"""Refusals that a retry does not change."""

log = structlog.get_logger(__name__)


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
        self._sender = sender
        self._routes = routes
        self._clock = clock
        self._counters = counters
        self._publish = publish
        self._waiting: deque[paho.MQTTMessage] = deque()
        self._waiting_bytes = 0
        self._some = asyncio.Event()
        self.connection: RemoteConnection | None = None
        self.last_refusal = ""

    @property
    def filters(self) -> list[tuple[str, int]]:
        """Filters to subscribe to, with the QoS."""
        return list({rule.remote_filter: rule.qos for rule in reversed(self._rules)}.items())

    def take(self, message: paho.MQTTMessage) -> None:
        """Take a message that has come."""
        self._waiting.append(message)
        self._waiting_bytes += len(message.payload)
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
                    self._waiting_bytes -= len(message.payload)
                if self._has_room:
                    connection.resume_reading()
            await self._some.wait()

    async def _store(self, batch: Sequence[paho.MQTTMessage], connection: RemoteConnection) -> None:
        messages = [self._message(message) for message in batch]
        self._counters.ignored += messages.count(None)
        pending = [message for message in messages if message is not None]
        while pending:
            refusals = await self._sent(pending)
            stuck = next((place for place, refusal in enumerate(refusals or ()) if _is_for_now(refusal)), len(pending))
            refused = self._note_refused(pending[:stuck], refusals)
            self._counters.refused_in += refused
            self._counters.received += stuck - refused
            pending = pending[stuck:]
            if pending and refusals is not None:
                await self._wait_again(refusals[stuck])
        self.last_refusal = ""
        connection.acknowledge([message.mid for message in batch if message.qos])

    async def _sent(self, messages: list[Message]) -> Refusals:
        """Return the store's refusals; a failure of all is a passing refusal of the first."""
        try:
            return await self._publish(messages, self._sender)
        except EntrepotError as failure:
            if _is_for_now(failure):
                return [failure, *[None] * (len(messages) - 1)]
            return [failure] * len(messages)

    async def _wait_again(self, refusal: EntrepotError | None) -> None:
        reason = "" if refusal is None else refusal.message
        if reason != self.last_refusal:
            log.warning("the store takes nothing from a bridge for now", bridge=self._remote.name, reason=reason)
        self.last_refusal = reason
        await asyncio.sleep(RETRY_SECONDS)

    def _note_refused(self, messages: Sequence[Message], refusals: Refusals) -> int:
        count = 0
        for message, refusal in zip(messages, refusals or (), strict=False):
            if refusal is not None:
                count += 1
                log.warning(
                    "a message of a bridge is refused for good",
                    bridge=self._remote.name,
                    name=message.sub_topic,
                    reason=refusal.message,
                )
        return count

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


def _is_for_now(refusal: EntrepotError | None) -> bool:
    return refusal is not None and refusal.code not in _FOR_GOOD
