"""Names of RabbitMQ's metrics that are told here, with what each says.  Counters get `_total` when they are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.gateway.amqp.virtual_hosts.consumption import Way

GAUGES: Final = {
    "rabbitmq_connections": "Open AMQP connections of this gateway",
    "rabbitmq_channels": "Open channels of this gateway",
    "rabbitmq_consumers": "Consumers of this gateway",
    "rabbitmq_queues": "Queues that this gateway tells of",
    "rabbitmq_process_open_tcp_sockets": "AMQP sockets that are open",
    "rabbitmq_process_max_tcp_sockets": "AMQP sockets that may be open (amqp.max_connections)",
}
PROCESS: Final = {
    "rabbitmq_process_resident_memory_bytes": ("process_resident_memory_bytes", "Memory of this gateway's process"),
    "rabbitmq_process_open_fds": ("process_open_fds", "Descriptors that are open"),
    "rabbitmq_process_max_fds": ("process_max_fds", "Descriptors that may be open"),
    "process_start_time_seconds": ("process_start_time_seconds", "Start of the process, in seconds since 1970"),
}
"""Figures of the process, each with the name of the library's own."""
DISK: Final = {
    "rabbitmq_disk_space_available_bytes": ("disk_free_bytes", "Free bytes on the brokers' disks"),
    "rabbitmq_disk_space_available_limit_bytes": (
        "disk_refused_below_bytes",
        "Free bytes below which new messages are refused",
    ),
}
"""Figures of the store, where it has them, each with its name among the store's gauges."""
UPTIME: Final = ("rabbitmq_erlang_uptime_seconds", "Time since the process began")
GLOBAL_GAUGES: Final = {
    "rabbitmq_global_publishers": "Channels that have published",
    "rabbitmq_global_consumers": "Consumers of this gateway",
}
"""Gauges with the label `protocol`."""
COUNTERS: Final = {
    "rabbitmq_connections_opened": "AMQP connections opened",
    "rabbitmq_connections_closed": "AMQP connections closed",
    "rabbitmq_channels_opened": "Channels opened",
    "rabbitmq_channels_closed": "Channels closed",
    "rabbitmq_queues_declared": "Declarations of queues",
    "rabbitmq_queues_created": "Queues created",
    "rabbitmq_queues_deleted": "Queues deleted",
    "rabbitmq_channel_messages_published": "Messages published by AMQP",
    "rabbitmq_channel_messages_confirmed": "Messages published by AMQP and confirmed",
    "rabbitmq_channel_messages_unroutable_returned": "Messages that no queue took, returned to their publishers",
    "rabbitmq_channel_messages_unroutable_dropped": "Messages that no queue took, not to be returned",
    "rabbitmq_channel_messages_redelivered": "Messages delivered again",
    "rabbitmq_channel_messages_acked": "Messages acknowledged",
    "rabbitmq_channel_messages_delivered": "Messages delivered to consumers that do not acknowledge",
    "rabbitmq_channel_messages_delivered_ack": "Messages delivered to consumers that acknowledge",
    "rabbitmq_channel_get": "Messages got that are not acknowledged",
    "rabbitmq_channel_get_ack": "Messages got that are to be acknowledged",
    "rabbitmq_channel_get_empty": "Questions for a message to an empty queue",
}
_BY_WAY: Final = {
    Way.CONSUMED: "rabbitmq_channel_messages_delivered",
    Way.CONSUMED_ACK: "rabbitmq_channel_messages_delivered_ack",
    Way.GOT: "rabbitmq_channel_get",
    Way.GOT_ACK: "rabbitmq_channel_get_ack",
}
GLOBAL_COUNTERS: Final[Mapping[str, tuple[str, str]]] = {
    "rabbitmq_global_messages_received": ("rabbitmq_channel_messages_published", "Messages published"),
    "rabbitmq_global_messages_confirmed": ("rabbitmq_channel_messages_confirmed", "Messages confirmed"),
    "rabbitmq_global_messages_unroutable_returned": (
        "rabbitmq_channel_messages_unroutable_returned",
        "Messages that no queue took, returned",
    ),
    "rabbitmq_global_messages_unroutable_dropped": (
        "rabbitmq_channel_messages_unroutable_dropped",
        "Messages that no queue took, not to be returned",
    ),
    "rabbitmq_global_messages_get_empty": ("rabbitmq_channel_get_empty", "Questions for a message to an empty queue"),
    "rabbitmq_global_messages_redelivered": ("rabbitmq_channel_messages_redelivered", "Messages delivered again"),
    "rabbitmq_global_messages_acknowledged": ("rabbitmq_channel_messages_acked", "Messages acknowledged"),
    "rabbitmq_global_messages_received_confirm": ("to_confirm", "Messages published on channels with confirms"),
    "rabbitmq_global_messages_routed": ("queued", "Messages that this gateway put into queues, from any door"),
    "rabbitmq_global_messages_delivered": ("deliver_get", "Messages delivered and got"),
    "rabbitmq_global_messages_delivered_consume_auto_ack": (
        "rabbitmq_channel_messages_delivered",
        "Messages delivered to consumers that do not acknowledge",
    ),
    "rabbitmq_global_messages_delivered_consume_manual_ack": (
        "rabbitmq_channel_messages_delivered_ack",
        "Messages delivered to consumers that acknowledge",
    ),
    "rabbitmq_global_messages_delivered_get_auto_ack": ("rabbitmq_channel_get", "Messages got, not acknowledged"),
    "rabbitmq_global_messages_delivered_get_manual_ack": ("rabbitmq_channel_get_ack", "Messages got, acknowledged"),
}
"""Counters with the label `protocol`, each with that of channels that it equals, or with a name of its own."""
QUEUE_GAUGES: Final = {
    "rabbitmq_queue_messages_ready": ("messages_ready", "Messages that wait for a consumer"),
    "rabbitmq_queue_messages_unacked": ("messages_unacknowledged", "Messages that consumers have not acknowledged"),
    "rabbitmq_queue_messages": ("messages", "Messages in queues"),
    "rabbitmq_queue_consumers": ("consumers", "Consumers of queues"),
}
"""Figures of queues, each with its field in the management API; likewise those of channels and connections."""
QUEUE_BYTES: Final = {
    "rabbitmq_queue_messages_bytes": ("message_bytes", "Bytes of the bodies of messages in queues"),
    "rabbitmq_queue_messages_ready_bytes": ("message_bytes_ready", "Bytes of messages that wait for a consumer"),
    "rabbitmq_queue_messages_unacked_bytes": (
        "message_bytes_unacknowledged",
        "Bytes of messages that consumers have not acknowledged",
    ),
}
"""Likewise, where the store knows them."""
QUEUE_SHARES: Final = {
    "rabbitmq_queue_consumer_capacity": ("consumer_capacity", "Share of time in which a queue could deliver at once"),
    "rabbitmq_queue_consumer_utilisation": ("consumer_utilisation", "Same as consumer capacity"),
}
"""Likewise, of all queues but streams."""
QUEUE_COUNTERS: Final = {
    "rabbitmq_queue_messages_published": ("publish", "Messages that this gateway put into queues, from any door"),
}
CHANNEL_GAUGES: Final = {
    "rabbitmq_channel_consumers": ("consumer_count", "Consumers of channels"),
    "rabbitmq_channel_messages_unacked": ("messages_unacknowledged", "Messages that channels have not acknowledged"),
    "rabbitmq_channel_messages_uncommitted": ("messages_uncommitted", "Messages of transactions that are open"),
    "rabbitmq_channel_acks_uncommitted": ("acks_uncommitted", "Acknowledgements of transactions that are open"),
    "rabbitmq_channel_prefetch": ("global_prefetch_count", "Limits of unacknowledged messages of channels"),
}
CONNECTION_GAUGES: Final = {
    "rabbitmq_connection_channels": ("channels", "Channels of connections"),
}


def ways(counts: Mapping[Way, int]) -> dict[str, int]:
    """Deliveries by the names of their counters."""
    return {name: counts[way] for way, name in _BY_WAY.items()}
