"""SysMessages: the `$SYS` topics of this gateway: the sources of their values, and their way to subscribers."""

from __future__ import annotations

from entrepot.domain.message import StoredMessage
from entrepot.gateway.mqtt.connections.outbox import NOT_IN_A_QUEUE
from entrepot.gateway.mqtt.frontend import MqttFrontend
from entrepot.gateway.mqtt.names import SYS
from entrepot.gateway.mqtt.sys_topics import SysCounters, SysTopics


class SysMessages:
    """The values as messages of QoS 0 that are in no queue, for clients with the right to subscribe to their names."""

    def __init__(self, frontend: MqttFrontend, version: str, interval_seconds: float) -> None:
        services = frontend.services
        self._hub, self._clock = services.hub, services.clock
        self._topics = SysTopics(
            _counters(frontend),
            services.clock,
            lambda name, value: self._hub.tell([self._message(name, value)]),
            version=f"entrepot version {version}",
            interval_seconds=interval_seconds,
        )
        services.sys_messages = self.current

    def start(self) -> None:
        """Publish from here on; the first values come at once."""
        self._topics.start()

    def close(self) -> None:
        """Stop publishing."""
        self._topics.close()

    def current(self, topic_filter: str) -> list[StoredMessage]:
        """The values that a new subscription matches."""
        return [self._message(name, value) for name, value in self._topics.current(topic_filter)]

    def _message(self, name: str, value: bytes) -> StoredMessage:
        return StoredMessage(SYS, value, name, queue_id=NOT_IN_A_QUEUE, qos=0, born_time_ms=self._clock.now_ms())


def _counters(frontend: MqttFrontend) -> SysCounters:
    counters, there = frontend.counters, frontend.conversations
    return SysCounters(
        clients_connected=lambda: len(frontend.conversations),
        clients_expired=lambda: frontend.sweeper.expired,
        connections_opened=counters.connects.total,
        sockets_opened=lambda: counters.sockets,
        messages_received=lambda: counters.packets_received,
        messages_sent=lambda: counters.packets_sent,
        publish_messages_received=counters.publishes.total,
        publish_messages_sent=lambda: counters.publishes_sent.total(),
        publish_messages_dropped=lambda: counters.dropped,
        publish_bytes_received=lambda: counters.publish_bytes,
        bytes_received=lambda: counters.bytes_received,
        bytes_sent=lambda: counters.bytes_sent,
        messages_inflight=lambda: sum(len(each.machine.window.held) for each in there),
        subscriptions_count=lambda: sum(len(each.subscribing.records) for each in there),
        shared_subscriptions_count=lambda: sum(len(each.subscribing.shares or ()) for each in there),
        retained_messages_count=lambda: frontend.services.retained.count,
    )
