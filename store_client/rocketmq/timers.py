"""Timed messages.  A recall names a message by its topic, broker, time and id, so any gateway may ask for one."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.timing import TimedMessage, TimerCursor
from entrepot.protocols.rocketmq.mapping import deliver_at_ms, wire_id
from entrepot.protocols.rocketmq.remoting import codes
from entrepot.protocols.rocketmq.remoting.messages import UNIQUE_KEY
from entrepot.store_client.rocketmq.absent import refuse
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.finding import indexed_by_id
from entrepot.store_client.rocketmq.remembered import Remembered
from entrepot.store_client.rocketmq.sending import Sent

TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
REAL_TOPIC, RECALLED = "REAL_TOPIC", "TIMER_DEL_UNIQKEY"
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
        """Implements `Timers.retime` for the time that the message has: that asks whether it waits.  Another one is
        refused: between a recall and a new message it could be lost, or come twice."""
        if new_deliver_at_ms != deliver_at_ms:
            refuse("give a timed message another time", "recall it, and send it again")
        is_over = deliver_at_ms <= self._cluster.clock.now_ms()
        if is_over or not await self._waits(topic, message_id):
            text = f"no message of topic {topic!r} waits for {deliver_at_ms} any more"
            raise EntrepotError(Code.OFFSET_NOT_FOUND, text)

    async def _waits(self, topic: str, message_id: bytes) -> bool:
        """Ask the brokers of a topic for a timed message.  A recall is a record of the same id, with a mark."""
        resource, key = self._cluster.names.resource(topic), wire_id(message_id)
        brokers = (await self._cluster.routes.of(topic)).brokers
        answers = await asyncio.gather(*(indexed_by_id(self._cluster, TIMER_TOPIC, each, key) for each in brokers))
        for records in answers:
            own = [record for record in records if record.properties.get(REAL_TOPIC, resource) == resource]
            own = [record for record in own if record.properties.get(UNIQUE_KEY) == key]
            if own and not any(RECALLED in record.properties for record in own):
                return True
        return False

    async def timed_messages(
        self, topic: str | None = None, *, after: TimerCursor | None = None, limit: int = 100
    ) -> list[TimedMessage]:
        refuse("list timed messages")
