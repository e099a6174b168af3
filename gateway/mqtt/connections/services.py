"""MqttServices: objects shared by all connections of the MQTT front end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from domain.clock import Clock
from domain.message import StoredMessage
from domain.ports import Store
from domain.shard import broker_of_queue
from gateway.background_tasks import BackgroundTasks
from gateway.messaging.routes import Routes
from gateway.messaging.send import Sender
from gateway.mqtt.connections.access import MqttAccess
from gateway.mqtt.connections.admission import Admission
from gateway.mqtt.connections.counters import MqttCounters
from gateway.mqtt.connections.subscriber_presence import SubscriberPresence
from gateway.mqtt.connections.traces import Traces
from gateway.mqtt.fan_out.hub import DeliveryHub
from gateway.mqtt.retained.retained import RetainedMessages
from gateway.mqtt.sessions.opening import Sessions
from gateway.mqtt.shares.shares import Shares
from gateway.settings import MqttSettings
from protocols.mqtt.connection_events import ConnectionLimits

FINDING_SECONDS: Final = 30.0
"""Longest time from a gateway's start until it knows every broker, in seconds."""


@dataclass(slots=True)
class MqttServices:
    """Objects shared by all connections.  `presence`: None where publishers are not told of missing subscribers.
    `sys_messages`: messages of the `$SYS` topics that match a filter."""

    store: Store
    sender: Sender
    hub: DeliveryHub
    shares: Shares
    retained: RetainedMessages
    routes: Routes
    access: MqttAccess
    admission: Admission
    counters: MqttCounters
    traces: Traces
    sessions: Sessions
    presence: SubscriberPresence | None
    settings: MqttSettings
    limits: ConnectionLimits
    max_session_expiry_seconds: int
    clock: Clock
    loop: asyncio.AbstractEventLoop
    began: float
    tasks: BackgroundTasks
    sys_messages: Callable[[str], list[StoredMessage]] = lambda topic_filter: []

    def may_come(self, topic: str, queue_id: int) -> bool:
        """True if the queue may exist but is unknown yet, because this gateway has just started."""
        topology = self.store.topology
        found = topology.topic(topic)
        if found is None or self.loop.time() - self.began > FINDING_SECONDS:
            return False
        return broker_of_queue(queue_id) not in map(broker_of_queue, topology.queues(found).readable)
