"""MqttCounters: plain numbers, counted a batch at a time.

Per-message counts are kept by each conversation (`bytes_in`, `bytes_out`, `messages_out`).  Totals add up closed
conversations and, when read, the open ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from entrepot.domain.clock import Clock
from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.history import ClientHistory
from entrepot.protocols.mqtt.packet_counts import PacketCounts
from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.reason_codes import ReasonCode

PART: Final = "mqtt"
"""The part of incidents of what clients publish and subscribe to."""
NOTED_EVERY_MS: Final = 1000
"""Shortest time between two kept incidents of one connection that do not differ, in milliseconds."""


class MqttCounters:
    """Counters since the process began.  `publishes`: by protocol version and QoS.  `connects`: by version and outcome
    (`accepted` or the reason code's name).  `refused`: refused publishes, wills and subscriptions by reason code."""

    def __init__(
        self, clients: Callable[[], Iterable[MqttClient]], history: ClientHistory, incidents: Incidents, clock: Clock
    ) -> None:
        self._clients, self._history, self._incidents, self._clock = clients, history, incidents, clock
        self.packets = PacketCounts()
        self.sockets = 0
        self.publishes: Counter[tuple[int, int]] = Counter()
        self.publish_bytes = 0
        self.connects: Counter[tuple[int, str]] = Counter()
        self.dropped = 0
        self.refused: Counter[str] = Counter()
        self._bytes_received = self._bytes_sent = 0
        self._publishes_sent: Counter[int] = Counter()

    def count_publishes(self, client: MqttClient, version: int, packets: list[Publish]) -> None:
        """Count a run of incoming publishes of a protocol version."""
        first = packets[0].qos
        if all(packet.qos == first for packet in packets):
            self.publishes[version, first] += len(packets)
        else:
            for packet in packets:
                self.publishes[version, packet.qos] += 1
        self.publish_bytes += sum(len(packet.payload) for packet in packets)
        client.messages_in += len(packets)

    def drop(self, client: MqttClient, count: int) -> None:
        """Count QoS 0 messages dropped for a slow subscriber."""
        self.dropped += count
        client.dropped += count

    def pass_over(self, client: MqttClient, size: int) -> None:
        """Count and note a message that was not sent, since it exceeds the client's Maximum Packet Size (3.1.2-24).
        Repeated ones of a client are counted, and one is kept in a second."""
        limit, now_ms = client.machine.max_packet_to_client, self._clock.now_ms()
        if size <= limit:
            return  # the connection has ended
        if abs(now_ms - client.passed_over_ms) >= NOTED_EVERY_MS:
            client.passed_over_ms = now_ms
            reason = f"a PUBLISH of {size} bytes exceeds the client's Maximum Packet Size of {limit}"
            self._incidents.note(PART, Outcome.PASSED_OVER, reason, client=client.client_id)
        else:
            self._incidents.counts[PART, Outcome.PASSED_OVER] += 1

    def refuse(self, client: MqttClient, name: str, why: str, reason: ReasonCode = ReasonCode.NOT_AUTHORIZED) -> None:
        """Count and note a refused publish, will or subscription, at the client and for the operator.  One client
        cannot push the incidents of others out: its repeated ones are counted, and one is kept in a second."""
        self.refused[reason.name] += 1
        is_new, now_ms = self._history.denied(client, name, why, reason), self._clock.now_ms()
        if is_new or abs(now_ms - client.refusal_noted_ms) >= NOTED_EVERY_MS:
            client.refusal_noted_ms = now_ms
            self._incidents.note(PART, Outcome.REFUSED, f"{reason.name}: {why}", place=name, client=client.client_id)
        else:
            self._incidents.counts[PART, Outcome.REFUSED] += 1

    def closed(self, client: MqttClient) -> None:
        """Add a closed connection's counts to the totals."""
        self._bytes_received += client.bytes_in
        self._bytes_sent += client.bytes_out
        self._publishes_sent[client.machine.version] += client.messages_out

    @property
    def bytes_received(self) -> int:
        return self._bytes_received + sum(client.bytes_in for client in self._clients())

    @property
    def bytes_sent(self) -> int:
        return self._bytes_sent + sum(client.bytes_out for client in self._clients())

    @property
    def publishes_sent(self) -> Counter[int]:
        """Sent publishes by protocol version."""
        found = Counter(self._publishes_sent)
        for client in self._clients():
            found[client.machine.version] += client.messages_out
        return found

    @property
    def packets_received(self) -> int:
        return sum(each.total() for each in self.packets.received.values())

    @property
    def packets_sent(self) -> int:
        return self.packets.sent.total() + self.publishes_sent.total()
