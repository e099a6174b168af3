"""MqttServices: objects shared by all connections of the MQTT front end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from entrepot.domain.broker_of_queue import broker_of_queue
from entrepot.domain.clock import Clock
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Store
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.mqtt.connections.access import MqttAccess
from entrepot.gateway.mqtt.connections.admission import Admission
from entrepot.gateway.mqtt.connections.counters import MqttCounters
from entrepot.gateway.mqtt.connections.history import ClientHistory
from entrepot.gateway.mqtt.connections.subscriber_presence import SubscriberPresence
from entrepot.gateway.mqtt.connections.traces import Traces
from entrepot.gateway.mqtt.fan_out.hub import DeliveryHub
from entrepot.gateway.mqtt.sessions.opening import Sessions
from entrepot.gateway.mqtt.shares.shares import Shares
from entrepot.gateway.retained.retained import RetainedMessages
from entrepot.gateway.settings import MqttSettings
from entrepot.gateway.work.background_tasks import BackgroundTasks
from entrepot.protocols.mqtt.connection_events import ConnectionLimits

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
    history: ClientHistory
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
