"""Connections, channels and consumers in RabbitMQ's JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from entrepot.domain.field_value import text_of
from entrepot.gateway.amqp.connections.channel import AmqpChannel
from entrepot.gateway.amqp.connections.consumer import Consumer
from entrepot.gateway.amqp.connections.conversation import AmqpConversation
from entrepot.gateway.amqp.connections.shown_names import channel_name, connection_name
from entrepot.gateway.transport.driver import Driver


def connection_shape(conversation: AmqpConversation) -> dict[str, Any]:
    driver, client, tuned = conversation.driver, conversation.client, conversation.machine.tuned
    local_host, _, local_port = ("" if driver is None else driver.local).rpartition(":")
    return {
        "name": connection_name(driver),
        "user_provided_name": plain(client.properties.get("connection_name")),
        "user": client.login_name,
        "vhost": client.vhost_name,
        "node": node_name(client.gateway),
        "type": "network",
        "protocol": "AMQP 0-9-1",
        "state": "running",
        "host": local_host,
        "port": int(local_port or 0),
        **_peer(driver),
        "ssl": driver is not None and driver.source.is_tls,
        "channels": len(conversation.channels),
        "channel_max": tuned.channel_max,
        "frame_max": tuned.frame_max,
        "timeout": tuned.heartbeat_seconds,
        "connected_at": client.connected_at_ms,
        "client_properties": plain(client.properties),
    }


def _peer(driver: Driver | None) -> dict[str, Any]:
    if driver is None:
        return {"peer_host": "", "peer_port": 0}
    return {"peer_host": driver.source.host, "peer_port": driver.source.port}


def channel_shape(channel: AmqpChannel) -> dict[str, Any]:
    consuming, publishing = channel.consuming, channel.publishing
    return {
        "name": channel_name(channel),
        "number": channel.out.number,
        "user": channel.client.login_name,
        "vhost": channel.vhost.name,
        "node": node_name(channel.client.gateway),
        "connection_details": {"name": connection_name(channel.out.driver), **_peer(channel.out.driver)},
        "state": "running",
        "consumer_count": len(consuming.consumers),
        "messages_unacknowledged": len(consuming.held),
        "prefetch_count": consuming.room.prefetch,
        "global_prefetch_count": consuming.room.channel_prefetch,
        "confirm": publishing.confirms,
        "transactional": publishing.is_tx,
        "messages_uncommitted": len(publishing.transaction),
        "acks_uncommitted": consuming.tx.count,
    }


def consumer_shape(consumer: Consumer, channel: AmqpChannel) -> dict[str, Any]:
    queue, feeds = consumer.queue, channel.consuming.services.virtual_hosts.feeds
    is_active, is_single = feeds.is_active(queue, consumer), queue.declaration.arguments.single_active_consumer
    return {
        "consumer_tag": consumer.tag,
        "queue": {"name": queue.name, "vhost": channel.vhost.name},
        "channel_details": {
            "name": channel_name(channel),
            "number": channel.out.number,
            "user": channel.client.login_name,
            "connection_name": connection_name(channel.out.driver),
            "node": node_name(channel.client.gateway),
            **_peer(channel.out.driver),
        },
        "ack_required": not consumer.no_ack,
        "exclusive": consumer.exclusive,
        "active": is_active,
        "activity_status": ("single_active" if is_active else "waiting") if is_single else "up",
        "prefetch_count": consumer.prefetch,
        "arguments": plain(consumer.arguments),
    }


def plain(value: object) -> Any:
    """A field table's value as JSON."""
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, bytes | bytearray | memoryview):
        return (text_of(value) or "").encode("utf-8", "replace").decode()
    if isinstance(value, Sequence):
        return [plain(each) for each in value]
    return str(value)


def node_name(gateway: str) -> str:
    """RabbitMQ's node name of a gateway."""
    return f"entrepot@{gateway}"
