"""ClientHistory: recent events of one gateway's MQTT clients: connects, refusals, denials, ends.

Invariants: the events are bounded in number and in bytes.  Refused CONNECTs, which anybody can cause, have a ring of
their own: they push out no event of an accepted client.  Repeated denials of a connection are one event with a count.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from entrepot.domain.clock import Clock
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.told_words import EventKind
from entrepot.protocols.mqtt.connection_events import Closing
from entrepot.protocols.mqtt.packets import Connect
from entrepot.protocols.mqtt.reason_codes import ReasonCode

MAX_EVENTS: Final = 20_000
"""Kept events of each ring; the oldest make room."""
MAX_RING_BYTES: Final = 8 << 20
"""Maximum size of a ring's events in memory, as estimated."""
EVENT_BYTES: Final = 400
"""Estimated size of an event besides its texts."""
MAX_TEXT: Final = 200
CONNECTION_LOST: Final = "the connection was lost"
"""Text of the end of a connection without a goodbye."""
GOODBYE: Final = "NORMAL_DISCONNECTION"
"""Name of reason code 0 at the end of a connection."""
MAX_DENIALS: Final = 8
"""Kept denials of one connection that differ; of further ones, only the last is kept, and their number."""


@dataclass(slots=True)
class ClientEvent:
    """One event.  `reason`: name of a reason code, or empty.  `count`: repetitions, the last one at `last_ms`."""

    at_ms: int
    client_id: str
    kind: EventKind
    reason: str
    text: str
    address: str
    user: str
    version: int
    count: int = 1
    last_ms: int = 0

    @property
    def size(self) -> int:
        """Estimated bytes in memory."""
        return EVENT_BYTES + 2 * (len(self.client_id) + len(self.text) + len(self.user))


class ClientHistory:
    """The events of one gateway, since `began_ms`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.began_ms = clock.now_ms()
        self._accepted, self._refused = _Ring(), _Ring()

    def connected(self, client: MqttClient, *, is_session_present: bool) -> None:
        """Note an accepted CONNECT."""
        text = "the session goes on" if is_session_present else "the session is new"
        self._accepted.add(self._event(client, EventKind.CONNECTED, None, text))

    def refused(self, client: MqttClient, connect: Connect, reason: ReasonCode, text: str) -> None:
        """Note a refused CONNECT."""
        event = self._event(client, EventKind.REFUSED, reason, text)
        event.client_id = connect.client_id[:MAX_TEXT]
        event.user = event.user or (connect.username or "")[:MAX_TEXT]
        self._refused.add(event)

    def denied(self, client: MqttClient, name: str, why: str, reason: ReasonCode) -> bool:
        """Note a refused publish, will or subscription; return True if it is kept as one that differs."""
        text = f"{name[:MAX_TEXT]}: {why}"[:MAX_TEXT]
        known = client.denials = client.denials or []
        client.refused += 1
        for event in known:
            if event.text == text and event.reason == reason.name:
                event.count += 1
                event.last_ms = self._clock.now_ms()
                client.last_refusal = event
                return False
        client.last_refusal = self._event(client, EventKind.DENIED, reason, text)
        if len(known) == MAX_DENIALS:
            return False
        known.append(client.last_refusal)
        self._accepted.add(known[-1])
        return True

    def ended(self, client: MqttClient, closing: Closing, *, is_taken: bool) -> None:
        """Note the end of an accepted connection."""
        if is_taken:
            kind = EventKind.TAKEN_OVER
        elif not closing.is_clients:
            kind = EventKind.CLOSED
        else:
            kind = EventKind.LOST if closing.text == CONNECTION_LOST else EventKind.DISCONNECTED
        self._accepted.add(self._event(client, kind, closing.reason, closing.text))

    def of(self, client_id: str, most: int) -> list[ClientEvent]:
        """The newest events of a client id, the newest first."""
        found = [event for event in reversed(self._accepted.events) if event.client_id == client_id]
        found += [event for event in reversed(self._refused.events) if event.client_id == client_id[:MAX_TEXT]]
        found.sort(key=lambda event: event.at_ms, reverse=True)
        return found[:most]

    def since_ms(self) -> int:
        """Time from which on no event is missing."""
        return max(self.began_ms, self._accepted.lost_until_ms, self._refused.lost_until_ms)

    def _event(self, client: MqttClient, kind: EventKind, reason: ReasonCode | None, text: str) -> ClientEvent:
        return ClientEvent(
            self._clock.now_ms(),
            client.client_id,
            kind,
            "" if reason is None else reason.name if reason else GOODBYE,
            text[:MAX_TEXT],
            client.peer,
            client.user[:MAX_TEXT],
            client.machine.version,
        )


class _Ring:
    """Events in order of time, bounded.  `lost_until_ms`: time of the newest one that made room."""

    def __init__(self) -> None:
        self.events: deque[ClientEvent] = deque()
        self._bytes = 0
        self.lost_until_ms = 0

    def add(self, event: ClientEvent) -> None:
        self.events.append(event)
        self._bytes += event.size
        while len(self.events) > MAX_EVENTS or self._bytes > MAX_RING_BYTES:
            oldest = self.events.popleft()
            self._bytes -= oldest.size
            self.lost_until_ms = oldest.at_ms
