"""Counters of the MQTT door: plain numbers, counted a batch at a time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from protocols.mqtt.packets import Publish

if TYPE_CHECKING:
    from gateway.frontends.mqtt.conversation import MqttConversation


class MqttCounters:
    """Since the process began.  `publishes` by protocol version and QoS; `connects` by version and outcome."""

    def __init__(self) -> None:
        self.bytes_received = 0
        self.bytes_sent = 0
        self.publishes: Counter[tuple[int, int]] = Counter()
        self.publish_bytes = 0
        self.connects: Counter[tuple[int, str]] = Counter()
        self.dropped = 0
        self.refused = 0
        self.most_clients = 0

    def count_publishes(self, conversation: MqttConversation, packets: list[Publish]) -> None:
        """A run of publishes came in."""
        for qos in {packet.qos for packet in packets}:
            self.publishes[conversation.version, qos] += sum(packet.qos == qos for packet in packets)
