"""Load by MQTT on a server that dies again and again: QoS 1 and 2 publishers, a persistent session, a share.

Every client keeps its state as the protocol wants it, so it knows what it may see twice: QoS 2 never, neither where it
publishes nor where it receives; QoS 1 and shares only what was not acknowledged, and with DUP where a session resumes.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import (
    Connack,
    Connect,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
)
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.waiting import PATIENCE_SECONDS

BROKEN = (OSError, AssertionError)
AWAY_SECONDS = 0.02
"""Pause between tries while the server is away."""
TICK_SECONDS = 0.1
SESSION_SECONDS = 600


class Wire:
    """One connection, packet by packet; nothing is answered by itself.  Raises OSError at its end."""

    def __init__(self, port: int, client_id: str, host: str = "127.0.0.1") -> None:
        self._decoder = Decoder(1 << 24, 5)
        self._socket = socket.create_connection((host, port), PATIENCE_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        properties = {PropertyId.SESSION_EXPIRY_INTERVAL: SESSION_SECONDS}
        self.say(Connect(client_id, 5, clean_start=False, properties=properties))
        self._waiting: list[Packet] = []
        while not self._waiting:
            self._waiting += self._take()
        welcome = self._waiting.pop(0)
        assert isinstance(welcome, Connack) and welcome.reason == 0, welcome
        self.session_present = welcome.session_present

    def say(self, *packets: Packet) -> None:
        self._socket.sendall(b"".join(encode(packet, 5) for packet in packets))

    def read(self) -> list[Packet]:
        """What is there, after a short wait; nothing if nothing came."""
        if self._waiting:
            found, self._waiting = self._waiting, []
            return found
        self._socket.settimeout(TICK_SECONDS)
        try:
            return self._take()
        except TimeoutError:
            return []

    def _take(self) -> list[Packet]:
        data = self._socket.recv(1 << 18)
        if not data:
            raise ConnectionResetError("closed")
        found = list(self._decoder.feed(data))
        assert self._decoder.error is None, self._decoder.error
        return found

    def cut(self) -> None:
        """End the connection from another thread: who reads finds it ended."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


@dataclass
class Publisher:
    """Sends `<name>-<number>` and resumes its session: what is not answered is sent again under its packet id."""

    name: str
    qos: int
    topic: str
    sent: set[str] = field(default_factory=set)
    confirmed: set[str] = field(default_factory=set)
    resumed: int = 0
    _open: dict[int, str] = field(default_factory=dict)
    _released: set[int] = field(default_factory=set)
    _next: int = 0
    _next_id: int = 0

    window: int = 8
    pause_seconds: float = 0.0
    """Time between two looks at whether the window has room, for a steady load."""
    again: set[str] = field(default_factory=set)
    """Sent more than once: at QoS 1 it may be stored so often."""

    def run(self, connect: Callable[[str], Wire], goes_on: Callable[[], bool]) -> None:
        """Until it is told to stop and everything is answered."""
        while goes_on() or self._open:
            wire: Wire | None = None
            try:
                wire = connect(self.name)
                self._resume(wire)
                due = 0.0
                while goes_on() or self._open:
                    if goes_on() and time.monotonic() >= due:
                        due = time.monotonic() + self.pause_seconds
                        self._fill(wire)
                    for packet in wire.read():
                        self._answered(wire, packet)
            except BROKEN:
                time.sleep(AWAY_SECONDS)
            finally:
                if wire is not None:
                    wire.close()

    @property
    def unanswered(self) -> dict[int, str]:
        """By packet id, what is on its way; released ones wait for PUBCOMP."""
        return {packet_id: f"{body} {packet_id in self._released}" for packet_id, body in self._open.items()}

    def _resume(self, wire: Wire) -> None:
        if not wire.session_present and self._released:  # the state is gone, and with it what was promised
            raise LookupError(f"{self.name}: the server lost a session that it had answered")
        self.resumed += wire.session_present
        for packet_id, body in self._open.items():
            if packet_id in self._released:
                wire.say(Pubrel(packet_id))
            else:
                self.again.add(body)
                wire.say(Publish(self.topic, body.encode(), self.qos, packet_id, dup=True))

    def _fill(self, wire: Wire) -> None:
        while len(self._open) < self.window:
            self._next_id = self._next_id % 60_000 + 1
            body, self._next = f"{self.name}-{self._next}", self._next + 1
            self.sent.add(body)
            self._open[self._next_id] = body
            wire.say(Publish(self.topic, body.encode(), self.qos, self._next_id))

    def _answered(self, wire: Wire, packet: Packet) -> None:
        if isinstance(packet, Pubrec) and packet.reason < 0x80:
            self._released.add(packet.packet_id)
            wire.say(Pubrel(packet.packet_id))
        elif isinstance(packet, Pubcomp) or (isinstance(packet, Puback) and packet.reason < 0x80):
            # PUBCOMP with 0x92 as well: an earlier one was lost, and the server has forgotten the identifier (4.3.3)
            body = self._open.pop(packet.packet_id, None)
            self._released.discard(packet.packet_id)
            if body is not None:
                self.confirmed.add(body)
        else:
            raise ConnectionError(f"{packet}")  # refused: it is tried again


@dataclass
class Consumer:
    """A session that receives, or a member of a share.  `taken`: how often each body was handed over by the rules of
    its QoS; `without_dup`: what came again and was not marked so."""

    name: str
    text: str
    qos: int
    taken: Counter[str] = field(default_factory=Counter)
    without_dup: list[str] = field(default_factory=list)
    resumed: int = 0
    is_ready: bool = False
    _held: dict[int, str] = field(default_factory=dict)
    """QoS 2: packet ids whose PUBREL has not come."""

    def run(self, connect: Callable[[str], Wire], goes_on: Callable[[], bool]) -> None:
        while goes_on():
            wire: Wire | None = None
            try:
                wire = connect(self.name)
                self.resumed += wire.session_present
                if not wire.session_present:
                    self._held.clear()
                    wire.say(Subscribe(65_000, [Subscription(self.text, self.qos)]))
                else:
                    self.is_ready = True
                while goes_on():
                    for packet in wire.read():
                        self._take(wire, packet)
            except BROKEN:
                time.sleep(AWAY_SECONDS)
            finally:
                if wire is not None:
                    wire.close()

    def _take(self, wire: Wire, packet: Packet) -> None:
        if isinstance(packet, Suback):
            self.is_ready = True
        elif isinstance(packet, Pubrel):
            self._held.pop(packet.packet_id, None)
            wire.say(Pubcomp(packet.packet_id))
        elif isinstance(packet, Publish):
            body = packet.payload.decode()
            if packet.qos == 2:
                if self._held.get(packet.packet_id) != body:
                    if packet.packet_id in self._held:
                        raise LookupError(f"{self.name}: packet id {packet.packet_id} is in use")
                    self._held[packet.packet_id] = body
                    self.taken[body] += 1
                wire.say(Pubrec(packet.packet_id))
            else:
                self.taken[body] += 1
                if self.taken[body] > 1 and not packet.dup:
                    self.without_dup.append(body)
                wire.say(Puback(packet.packet_id))


class Threads:
    """Publishers and consumers at work; `failures` are what ended one of them."""

    def __init__(self, connect: Callable[[str], Wire]) -> None:
        self._connect = connect
        self.is_producing = self.is_consuming = True
        self.failures: list[BaseException] = []
        self.publishers: list[Publisher] = []
        self.consumers: list[Consumer] = []
        self._threads: list[tuple[threading.Thread, bool]] = []

    def consume(self, *consumers: Consumer) -> None:
        self.consumers += consumers
        for each in consumers:
            self._start(lambda each=each: each.run(self._connect, lambda: self.is_consuming), produces=False)

    def publish(self, *publishers: Publisher) -> None:
        self.publishers += publishers
        for each in publishers:
            self._start(lambda each=each: each.run(self._connect, lambda: self.is_producing), produces=True)

    def _start(self, work: Callable[[], None], *, produces: bool) -> None:
        def run() -> None:
            try:
                work()
            except BaseException as failure:
                self.failures.append(failure)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append((thread, produces))
        thread.start()

    def end_producing(self) -> None:
        """No more new ones; waits until everything that was sent is answered."""
        self.is_producing = False
        for thread, produces in self._threads:
            if produces:
                thread.join(PATIENCE_SECONDS)
        assert not any(each.unanswered for each in self.publishers), [each.unanswered for each in self.publishers]

    def stop(self) -> None:
        self.is_producing = self.is_consuming = False
        for thread, _ in self._threads:
            thread.join(1)  # a publisher that waits for answers says so elsewhere

    @property
    def sent(self) -> set[str]:
        return set().union(*(each.sent for each in self.publishers))

    @property
    def confirmed(self) -> set[str]:
        return set().union(*(each.confirmed for each in self.publishers))
