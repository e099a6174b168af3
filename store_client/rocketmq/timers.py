"""Timed messages.  A recall names a message by its topic, broker, time and id, so any gateway may ask for one."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.timing import TimedMessage, TimerCursor
from entrepot.protocols.rocketmq.mapping import deliver_at_ms, wire_id
from entrepot.protocols.rocketmq.remoting import codes
from entrepot.store_client.rocketmq.absent import refuse
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.remembered import Remembered
from entrepot.store_client.rocketmq.sending import Sent

TimedKey = tuple[str, bytes, int]


class RocketMqTimers:
    """Implements `domain.ports.Timers`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._places: Remembered[TimedKey, list[tuple[str, str]]] = Remembered(cluster.settings.max_remembered)

    @property
    def waiting(self) -> int:
        """Timed messages that were sent here, and that this gateway remembers."""
        return len(self._places)

    def note_sent(self, message: Message, sent: Sent) -> None:
        """Remember the topic and broker of a timed message, and of each of its copies."""
        if sent.recall_handle:
            topic = message.system_text(SystemProperty.SENT_TO) or message.topic
            key = topic, message.message_id, deliver_at_ms(message) or 0
            self._places[key] = [*self._places.get(key, ()), (message.topic, sent.broker)]

    async def recall(self, topic: str, message_id: bytes, deliver_at_ms: int) -> None:
        """Implements `Timers.recall`.  A broker does not say whether the message was waiting: one that another gateway
        sent, or recalled, is answered as if it had been.  Its copies for further queues are recalled by their sender
        alone."""
        key = topic, message_id, deliver_at_ms
        places = self._places.get(key)
        if places == [] or deliver_at_ms <= self._cluster.clock.now_ms():
            raise EntrepotError(
                Code.OFFSET_NOT_FOUND, f"no message of topic {topic!r} waits for {deliver_at_ms} any more"
            )
        if places is None:
            places = [(topic, broker.name) for broker in (await self._cluster.routes.of(topic)).brokers]
        await asyncio.gather(*(self._recall(each, broker, key) for each, broker in places))
        self._places[key] = []

    async def _recall(self, topic: str, broker: str, key: TimedKey) -> None:
        _, message_id, at_ms = key
        address = (await self._cluster.routes.of(topic)).broker(broker).address
        resource = self._cluster.names.resource(topic)
        handle = urlsafe_b64encode(f"v1 {resource} {broker} {at_ms} {wire_id(message_id)}".encode()).decode("ascii")
        fields = {
            "topic": resource,
            "recallHandle": handle,
            "producerGroup": self._cluster.settings.producer_group,
            "bname": broker,
        }
        await self._cluster.ask(address, codes.RECALL, fields, what="recall a message")

    async def retime(self, topic: str, message_id: bytes, deliver_at_ms: int, new_deliver_at_ms: int) -> None:
        refuse("give a timed message another time", "recall it, and send it again")

    async def timed_messages(
        self, topic: str | None = None, *, after: TimerCursor | None = None, limit: int = 100
    ) -> list[TimedMessage]:
        refuse("list timed messages")
