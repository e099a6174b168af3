"""Traces: packets of one client or address in both directions, for operators.

Only traced connections pay for it.  Invariants: a trace ends by itself and holds its last MAX_ENTRIES packets.
Passwords are never in it; payloads only on request, at most MAX_PAYLOAD_BYTES of each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.packets import Connack, Connect, Packet, Publish, Suback, Subscribe, Unsuback, Unsubscribe

MAX_ENTRIES: Final = 1000
MAX_TRACES: Final = 16
MAX_SECONDS: Final = 3600
MAX_PAYLOAD_BYTES: Final = 1024
_MAX_PACKET: Final = 1 << 28


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """One packet.  `direction`: `in` from the client, `out` to it."""

    at_ms: int
    client_id: str
    peer: str
    direction: str
    type: str
    fields: dict[str, Any]


@dataclass(slots=True)
class Trace:
    """`target`: a client id, or an address without its port."""

    target: str
    until_ms: int
    with_payloads: bool
    clock: Clock
    seen: int = 0
    """Number of packets since it began, including those no longer held."""
    entries: deque[TraceEntry] = field(default_factory=lambda: deque(maxlen=MAX_ENTRIES))

    def sent(self, client: MqttClient, data: bytes) -> None:
        """Note sent packets."""
        self._note(client, "out", Decoder(_MAX_PACKET, client.machine.version or 4).feed(data))

    def received(self, client: MqttClient, packets: Iterable[Packet]) -> None:
        """Note received packets."""
        self._note(client, "in", packets)

    def _note(self, client: MqttClient, direction: str, packets: Iterable[Packet]) -> None:
        now_ms = self.clock.now_ms()
        if now_ms >= self.until_ms:
            detach(client)
            return
        for packet in packets:
            self.seen += 1
            kind, fields = type(packet).__name__.upper(), described(packet, with_payloads=self.with_payloads)
            self.entries.append(TraceEntry(now_ms, client.client_id, client.peer, direction, kind, fields))


class Traces:
    """The traces of one gateway."""

    def __init__(self, clock: Clock, clients: Callable[[], Iterable[MqttClient]]) -> None:
        self._clock, self._clients = clock, clients
        self._traces: dict[str, Trace] = {}

    def start(self, target: str, seconds: float, *, with_payloads: bool) -> Trace:
        """Begin or restart a trace of a client or address.  Raises TOO_MANY_REQUESTS where MAX_TRACES are running."""
        now_ms = self._clock.now_ms()
        self.stop(target)
        if len(self._traces) >= MAX_TRACES:  # make room by dropping ended ones
            for each in [each for each in self._traces.values() if each.until_ms <= now_ms]:
                self.stop(each.target)
        if len(self._traces) >= MAX_TRACES:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, f"{MAX_TRACES} traces are there already")
        trace = self._traces[target] = Trace(target, now_ms + int(seconds * 1000), with_payloads, self._clock)
        for client in self._clients():
            if _matches(client, client.client_id, target):
                attach(client, trace)
        return trace

    def get(self, target: str) -> Trace | None:
        """A trace, which may be over, or None."""
        return self._traces.get(target)

    def all(self) -> list[Trace]:
        """All traces, of which some may be over, in the order of their beginnings."""
        return list(self._traces.values())

    def stop(self, target: str) -> bool:
        """End and delete a trace; True if it existed."""
        trace = self._traces.pop(target, None)
        for client in self._clients() if trace is not None else ():
            if client.traced_by is trace:
                detach(client)
        return trace is not None

    def arrived(self, client: MqttClient, connect: Connect) -> None:
        """Attach a trace to a connecting client if one matches."""
        for trace in self._traces.values():
            if trace.until_ms > self._clock.now_ms() and _matches(client, connect.client_id, trace.target):
                attach(client, trace)
                trace.received(client, [connect])
                return


def attach(client: MqttClient, trace: Trace) -> None:
    """Record a connection's packets in a trace."""
    client.traced_by = trace
    client.observe = partial(trace.sent, client)
    client.machine.observe = partial(trace.received, client)


def detach(client: MqttClient) -> None:
    """Stop recording a connection's packets."""
    client.traced_by = client.observe = client.machine.observe = None


def _matches(client: MqttClient, client_id: str, target: str) -> bool:
    return target in (client_id, client.host)


def described(packet: Packet, *, with_payloads: bool) -> dict[str, Any]:
    """Return a packet's description."""
    fields: dict[str, Any] = {}
    for name in ("packet_id", "packet_ids", "reason", "reasons"):
        value = getattr(packet, name, None)
        if value:
            fields[name] = list(map(int, value)) if isinstance(value, list) else int(value)
    if isinstance(packet, Publish):
        fields |= {"topic": packet.topic, "qos": packet.qos, "retain": packet.retain, "dup": packet.dup}
        fields["size"] = len(packet.payload)
        if with_payloads:
            fields["payload"] = packet.payload[:MAX_PAYLOAD_BYTES].decode("utf-8", "backslashreplace")
    elif isinstance(packet, Connect):
        fields |= {"client_id": packet.client_id, "version": packet.version, "keep_alive": packet.keep_alive}
        fields |= {"clean_start": packet.clean_start, "username": packet.username}
        fields["will_topic"] = None if packet.will is None else packet.will.topic
    elif isinstance(packet, Connack):
        fields["session_present"] = packet.session_present
    elif isinstance(packet, Subscribe):
        fields["filters"] = {each.filter: each.qos for each in packet.subscriptions}
    elif isinstance(packet, Unsubscribe):
        fields["filters"] = list(packet.filters)
    elif isinstance(packet, Suback | Unsuback):
        fields.setdefault("reasons", list(map(int, packet.reasons)))
    return fields
