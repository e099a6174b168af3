"""SysTopics: this gateway's figures under `$SYS/broker/`, by mosquitto's names.

Every interval the counters are read and changes are published. The values are never stored; a new subscriber gets the
current ones as if they were retained. They are those of this process, not of all gateways.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, fields
from typing import Final

import structlog

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.routing.topic_filter import matches
from entrepot.gateway.messaging.incidents import Incidents, Outcome

PART: Final = "mqtt $SYS"
"""The part of incidents of these topics."""
PREFIX: Final = "$SYS/broker/"
LOAD_MINUTES: Final = (1, 5, 15)
LEAST_CHANGE: Final = 0.01
"""Smallest published change of a load."""

Count = Callable[[], int] | None
Publish = Callable[[str, bytes], None]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SysCounters:
    """Sources of the values; a topic without one is left out. Totals only grow; the others are present values."""

    clients_connected: Count = None
    clients_disconnected: Count = None
    """Sessions without a connection."""
    clients_expired: Count = None
    """Total of sessions that ended because their expiry passed."""
    connections_opened: Count = None
    """Total of CONNECTs."""
    sockets_opened: Count = None
    """Total of connections of the transport."""
    messages_received: Count = None
    """Total of control packets, of any kind."""
    messages_sent: Count = None
    publish_messages_received: Count = None
    """Total of PUBLISH packets."""
    publish_messages_sent: Count = None
    publish_messages_dropped: Count = None
    publish_bytes_received: Count = None
    """Total bytes of the payloads of these."""
    publish_bytes_sent: Count = None
    bytes_received: Count = None
    """Total bytes of the sockets."""
    bytes_sent: Count = None
    messages_inflight: Count = None
    """Messages of QoS 1 or 2 that were sent and not acknowledged."""
    subscriptions_count: Count = None
    shared_subscriptions_count: Count = None
    retained_messages_count: Count = None
    store_messages_count: Count = None
    store_messages_bytes: Count = None


_NAMES: Final = {
    "clients_connected": "clients/connected",
    "clients_disconnected": "clients/disconnected",
    "clients_expired": "clients/expired",
    "messages_received": "messages/received",
    "messages_sent": "messages/sent",
    "publish_messages_received": "publish/messages/received",
    "publish_messages_sent": "publish/messages/sent",
    "publish_messages_dropped": "publish/messages/dropped",
    "publish_bytes_received": "publish/bytes/received",
    "publish_bytes_sent": "publish/bytes/sent",
    "bytes_received": "bytes/received",
    "bytes_sent": "bytes/sent",
    "messages_inflight": "messages/inflight",
    "subscriptions_count": "subscriptions/count",
    "shared_subscriptions_count": "shared_subscriptions/count",
    "retained_messages_count": "retained messages/count",
    "store_messages_count": "store/messages/count",
    "store_messages_bytes": "store/messages/bytes",
}
_LOADS: Final = {
    "connections_opened": "load/connections",
    "sockets_opened": "load/sockets",
    "messages_received": "load/messages/received",
    "messages_sent": "load/messages/sent",
    "publish_messages_received": "load/publish/received",
    "publish_messages_sent": "load/publish/sent",
    "publish_messages_dropped": "load/publish/dropped",
    "bytes_received": "load/bytes/received",
    "bytes_sent": "load/bytes/sent",
}


class _Load:
    """Rate of a total per minute, as moving averages that weigh the past by e^(-age/window)."""

    __slots__ = ("_at_ms", "_total", "averages")

    def __init__(self, total: int, at_ms: int) -> None:
        self._total, self._at_ms = total, at_ms
        self.averages = [0.0] * len(LOAD_MINUTES)

    def update(self, total: int, at_ms: int) -> None:
        minutes = (at_ms - self._at_ms) / 60_000
        if minutes <= 0:
            return
        rate = (total - self._total) / minutes
        self._total, self._at_ms = total, at_ms
        for place, window in enumerate(LOAD_MINUTES):
            self.averages[place] = rate + math.exp(-minutes / window) * (self.averages[place] - rate)


class SysTopics:
    """The values and their publisher; `look` is awaited before the counters are read, for values that must be asked
    for. Without an interval nothing is published."""

    def __init__(
        self,
        counters: SysCounters,
        clock: Clock,
        publish: Publish,
        incidents: Incidents,
        *,
        version: str,
        interval_seconds: float,
        look: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._clock = clock
        self._publish, self._incidents = publish, incidents
        self._interval_seconds = interval_seconds
        self._look = look
        self._version = version
        self._counts: dict[str, Callable[[], int]] = {
            field.name: count for field in fields(counters) if (count := getattr(counters, field.name)) is not None
        }
        self._began_ms = clock.now_ms()
        self._loads = {name: _Load(total, self._began_ms) for name, total in self._read().items() if name in _LOADS}
        self._most_clients = 0
        self._values: dict[str, bytes] = {}
        self._published_loads: dict[str, float] = {}
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin: the first values come at once."""
        if self._interval_seconds > 0:
            self._running = background().keep("$SYS topics", self._run)

    def close(self) -> None:
        """Stop publishing."""
        if self._running is not None:
            self._running.cancel()
            self._running = None

    def current(self, topic_filter: str) -> list[tuple[str, bytes]]:
        """The names that match a filter with their values, for a new subscriber."""
        return [(name, value) for name, value in self._values.items() if matches(topic_filter, name)]

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        following = loop.time()
        while True:
            try:
                await self.update()
            except Exception:  # the next one may do better
                log.exception("the $SYS topics could not be updated")
            following = max(following + self._interval_seconds, loop.time())
            await asyncio.sleep(following - loop.time())

    async def update(self) -> None:
        """Read the counters, and publish changes.  One that fails is set aside: the others are published."""
        if self._look is not None:
            try:
                await self._look()
            except Exception as fault:  # noqa: BLE001 - the last known values are published
                self._set_aside("what is asked for", fault)
        now_ms, counts = self._clock.now_ms(), self._read()
        for name, text in (*self._facts(counts, now_ms), *self._moved_loads(counts, now_ms)):
            value = text.encode()
            if self._values.get(name) == value:
                continue
            try:
                self._publish(name, value)
            except Exception as fault:  # noqa: BLE001 - a fault of one name, which is tried again with the next values
                self._set_aside(name, fault)
            else:
                self._values[name] = value

    def _read(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, count in self._counts.items():
            try:
                found[name] = count()
            except Exception as fault:  # noqa: BLE001 - a fault of one counter
                self._set_aside(name, fault)
        return found

    def _set_aside(self, what: str, fault: Exception) -> None:
        self._incidents.note(PART, Outcome.SET_ASIDE, f"{type(fault).__name__}: {fault}", place=what, fault=fault)

    def _facts(self, counts: dict[str, int], now_ms: int) -> Iterator[tuple[str, str]]:
        yield PREFIX + "version", self._version
        yield PREFIX + "uptime", f"{(now_ms - self._began_ms) // 1000} seconds"
        for field, name in _NAMES.items():
            if field in counts:
                yield PREFIX + name, str(counts[field])
        connected = counts.get("clients_connected")
        if connected is not None:
            self._most_clients = max(self._most_clients, connected)
            yield PREFIX + "clients/total", str(connected + counts.get("clients_disconnected", 0))
            yield PREFIX + "clients/maximum", str(self._most_clients)

    def _moved_loads(self, counts: dict[str, int], now_ms: int) -> Iterator[tuple[str, str]]:
        for field, load in self._loads.items():
            if field in counts:
                load.update(counts[field], now_ms)
            for window, average in zip(LOAD_MINUTES, load.averages, strict=True):
                name = f"{PREFIX}{_LOADS[field]}/{window}min"
                published = self._published_loads.get(name)
                if published is None or name not in self._values or abs(average - published) >= LEAST_CHANGE:
                    self._published_loads[name] = average
                    yield name, f"{average:.2f}"
