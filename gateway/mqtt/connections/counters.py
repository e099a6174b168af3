"""Counters of the MQTT door: plain numbers, counted a batch at a time.

What every message would touch is counted by each conversation for itself (`bytes_in`, `bytes_out`, `messages_out`);
totals are those of the conversations that are over, and of the open ones when somebody looks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from protocols.mqtt.packet_counts import PacketCounts
from protocols.mqtt.packets import Publish

if TYPE_CHECKING:
    from gateway.mqtt.connections.conversation import MqttConversation


class MqttCounters:
    """Since the process began.  `publishes` by protocol version and QoS; `connects` by version and outcome, which is
    `accepted` or the name of the reason code; `refused` publishes and subscriptions by theirs."""

    def __init__(self, open_conversations: Collection[MqttConversation]) -> None:
        self._open = open_conversations
        self.packets = PacketCounts()
        self.sockets = 0
        self.publishes: Counter[tuple[int, int]] = Counter()
        self.publish_bytes = 0
        self.connects: Counter[tuple[int, str]] = Counter()
        self.dropped = 0
        self.refused: Counter[str] = Counter()
        self._bytes_received = self._bytes_sent = 0
        self._publishes_sent: Counter[int] = Counter()

    def count_publishes(self, conversation: MqttConversation, packets: list[Publish]) -> None:
        """A run of publishes came in."""
        version, first = conversation.version, packets[0].qos
        if all(packet.qos == first for packet in packets):
            self.publishes[version, first] += len(packets)
        else:
            for packet in packets:
                self.publishes[version, packet.qos] += 1
        self.publish_bytes += sum(len(packet.payload) for packet in packets)
        conversation.messages_in += len(packets)

    def closed(self, conversation: MqttConversation) -> None:
        """A conversation is over: what it counted is kept here."""
        self._bytes_received += conversation.bytes_in
        self._bytes_sent += conversation.bytes_out
        self._publishes_sent[conversation.version] += conversation.messages_out

    @property
    def bytes_received(self) -> int:
        return self._bytes_received + sum(conversation.bytes_in for conversation in self._open)

    @property
    def bytes_sent(self) -> int:
        return self._bytes_sent + sum(conversation.bytes_out for conversation in self._open)

    @property
    def publishes_sent(self) -> Counter[int]:
        """By protocol version."""
        found = Counter(self._publishes_sent)
        for conversation in self._open:
            found[conversation.version] += conversation.messages_out
        return found

    @property
    def packets_received(self) -> int:
        return sum(each.total() for each in self.packets.received.values())

    @property
    def packets_sent(self) -> int:
        return self.packets.sent.total() + self.publishes_sent.total()
