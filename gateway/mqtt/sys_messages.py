"""The `$SYS` topics of this gateway: the sources of their values, and their way to subscribers."""

from __future__ import annotations

from entrepot.domain.message import StoredMessage
from entrepot.gateway.mqtt.connections.outbox import NOT_IN_A_QUEUE
from entrepot.gateway.mqtt.frontend import MqttFrontend
from entrepot.gateway.mqtt.sys_topics import SysCounters, SysTopics
from entrepot.gateway.mqtt.topics.names import SYS


def sys_topics(frontend: MqttFrontend, version: str, interval_seconds: float) -> SysTopics:
    """The `$SYS` topics; their values are messages of QoS 0 in no queue, for clients with the right to their names."""
    services = frontend.services

    def message(name: str, value: bytes) -> StoredMessage:
        return StoredMessage(SYS, value, name, queue_id=NOT_IN_A_QUEUE, qos=0, born_time_ms=services.clock.now_ms())

    topics = SysTopics(
        _counters(frontend),
        services.clock,
        lambda name, value: services.hub.tell([message(name, value)]),
        services.sender.incidents,
        version=f"entrepot version {version}",
        interval_seconds=interval_seconds,
    )
    services.sys_messages = lambda topic_filter: [message(*each) for each in topics.current(topic_filter)]
    return topics


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
