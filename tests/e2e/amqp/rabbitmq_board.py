"""The queries of the board RabbitMQ-Overview, as RabbitMQ publishes it for Grafana (of August 2026), by its panels.

`{on}` stands for the join with `rabbitmq_identity_info` that each has, `{range}` for Grafana's interval of rates.
"""

from __future__ import annotations

from typing import Final

LABELS: Final = '{rabbitmq_cluster="CLUSTER", namespace="", rabbitmq_endpoint="aggregated"}'
IDENTITY: Final = f"rabbitmq_identity_info{LABELS}"
ON: Final = f"* on(instance, job) group_left(rabbitmq_cluster, rabbitmq_node) {IDENTITY}"
RANGE: Final = "[8s]"
BY: Final = "by(rabbitmq_node)"


def rate(name: str) -> str:
    """The query of most panels: a rate by node."""
    return f"sum(rate(rabbitmq_{name}_total{RANGE}) {ON}) {BY}"


def total(name: str) -> str:
    """The query of a single number."""
    return f"sum(rabbitmq_{name} {ON})"


_GLOBAL: Final = "global_messages"
_MANUAL, _AUTO = f"{_GLOBAL}_delivered_consume_manual_ack", f"{_GLOBAL}_delivered_consume_auto_ack"

FILLED: Final = {
    "Ready messages": total("queue_messages_ready"),
    "Incoming messages / s": f"sum(irate(rabbitmq_{_GLOBAL}_received_total{RANGE}) {ON})",
    "Outgoing messages / s": f"sum(irate(rabbitmq_{_GLOBAL}_delivered_total{RANGE}) {ON})",
    "Publishers": total("global_publishers"),
    "Connections": total("connections"),
    "Queues": total("queues"),
    "Unacknowledged messages": total("queue_messages_unacked"),
    "Consumers": total("global_consumers"),
    "Channels": total("channels"),
    "Nodes": f"count({IDENTITY})",
    "The table of nodes": "rabbitmq_erlang_uptime_seconds"
    f" * on(instance,job) group_left(rabbitmq_version, erlang_version) rabbitmq_build_info {ON}",
    "Disk space available before publishers blocked": "(rabbitmq_disk_space_available_bytes"
    f" - rabbitmq_disk_space_available_limit_bytes) {ON}",
    "File descriptors available": f"(rabbitmq_process_max_fds - rabbitmq_process_open_fds) {ON}",
    "TCP sockets available (3.13)": f"(rabbitmq_process_max_tcp_sockets - rabbitmq_process_open_tcp_sockets) {ON}",
    "Messages ready to be delivered to consumers": f"sum(rabbitmq_queue_messages_ready {ON}) {BY}",
    "Messages pending consumer acknowledgement": f"sum(rabbitmq_queue_messages_unacked {ON}) {BY}",
    "Messages published / s": rate(f"{_GLOBAL}_received"),
    "Messages routed to queues / s": rate(f"{_GLOBAL}_routed"),
    "Messages confirmed to publishers / s": rate(f"{_GLOBAL}_confirmed"),
    "Unroutable messages dropped / s": rate(f"{_GLOBAL}_unroutable_dropped"),
    "Unroutable messages returned / s": rate(f"{_GLOBAL}_unroutable_returned"),
    "Messages delivered / s": f"sum((rate(rabbitmq_{_AUTO}_total{RANGE}) {ON})"
    f" + (rate(rabbitmq_{_MANUAL}_total{RANGE}) {ON})) {BY}",
    "Messages redelivered / s": rate(f"{_GLOBAL}_redelivered"),
    "Messages delivered with manual ack / s": rate(_MANUAL),
    "Messages delivered auto ack / s": rate(_AUTO),
    "Messages acknowledged / s": rate(f"{_GLOBAL}_acknowledged"),
    "Polling operations with auto ack / s": rate(f"{_GLOBAL}_delivered_get_auto_ack"),
    "Polling operations that yield no result / s": rate(f"{_GLOBAL}_get_empty"),
    "Polling operations with manual ack / s": rate(f"{_GLOBAL}_delivered_get_manual_ack"),
    "Total queues": f"rabbitmq_queues {ON}",
    "Queues declared / s": rate("queues_declared"),
    "Queues created / s": rate("queues_created"),
    "Queues deleted / s": rate("queues_deleted"),
    "Total channels": f"rabbitmq_channels {ON}",
    "Channels opened / s": rate("channels_opened"),
    "Channels closed / s": rate("channels_closed"),
    "Total connections": f"rabbitmq_connections {ON}",
    "Connections opened / s": rate("connections_opened"),
    "Connections closed / s": rate("connections_closed"),
}
"""Panels that tell more than 0 at a server that is used in all ways."""
UNCONFIRMED: Final = {
    "Messages unconfirmed to publishers / s": f"sum(rate(rabbitmq_{_GLOBAL}_received_confirm_total{RANGE}) {ON}"
    f" - rate(rabbitmq_{_GLOBAL}_confirmed_total{RANGE}) {ON}) {BY}",
}
"""Panels that tell something, which may be 0."""
EMPTY: Final = {
    "Memory available before publishers blocked": f"(rabbitmq_resident_memory_limit_bytes {ON})"
    f" - (rabbitmq_process_resident_memory_bytes {ON})",
    "Avg Size": f"sum(increase(rabbitmq_message_size_bytes_sum{RANGE}) {ON})"
    f" / sum(increase(rabbitmq_message_size_bytes_count{RANGE}) {ON})",
    "Message Size Distribution": f'sum(increase(rabbitmq_message_size_bytes_bucket{{le="100.0"}}{RANGE}) {ON})'
    f' / sum(increase(rabbitmq_message_size_bytes_bucket{{le="+Inf"}}{RANGE}) {ON})',
}
"""Panels that docs/amqp.md names as empty."""
