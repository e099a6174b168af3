"""The cost of connections before login: the bytes of each, and the delay of others beside a flood.

Connections of each listener come to the state in which they hold most, all at once, and go again without a goodbye.
Then one client sends the smallest units of a protocol as fast as it can, connecting again whenever it is cut off, while
another one sends PINGREQ after PINGREQ.
"""

from __future__ import annotations

import base64
import socket
import statistics
import threading
import time
from contextlib import ExitStack, suppress
from typing import Final

from rich.console import Console

from benchmarks.processes import BenchmarkError, Server, entrepot, own_resident_bytes
from benchmarks.report import Report
from entrepot.protocols.http2.frames import (
    CONTINUATION,
    DATA,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    WINDOW_UPDATE,
    frame,
    number_frame,
    settings_frame,
)
from entrepot.protocols.http2.hpack import literal

CONNECTIONS: Final = 300
WARM_UP: Final = 5
PINGS: Final = 400
UNITS_AT_ONCE: Final = 20_000
SETTLE_SECONDS: Final = 0.5
HALF_CONNECT: Final = b"\x10\xf8\xff\x03\x00\x04MQTT\x05" + b"x" * 60_000
AMQP_HEADER: Final = b"AMQP\x00\x00\x09\x01"
HALF_FRAME: Final = AMQP_HEADER + b"\x01\x00\x00\x00\x00\x3f\x00" + b"x" * 16_000
HALF_HEAD: Final = b"GET / HTTP/1.1\r\nx: " + b"x" * 60_000
UPGRADE: Final = (
    b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Key: "
    + base64.b64encode(bytes(16))
    + b"\r\n\r\n"
)
EMPTY_FRAGMENT: Final = b"\x00\x80" + bytes(4)
GREETED: Final = PREFACE + settings_frame()


def called(stream: int) -> bytes:
    """HEADERS of a call whose request is still to come."""
    fields = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/apache.rocketmq.v2.MessagingService/Heartbeat"),
        (b"content-type", b"application/grpc"),
    )
    return frame(HEADERS, 4, stream, b"".join(literal(name, value) for name, value in fields))


def _resets() -> bytes:
    numbers = range(1, 2 * UNITS_AT_ONCE, 2)
    return b"".join(called(number) + number_frame(RST_STREAM, number, 8) for number in numbers)


CALL: Final = called(1)
HALF_BLOCK: Final = frame(HEADERS, 0, 1, literal(b"a", b"x" * 15_000)) + frame(
    CONTINUATION, 0, 1, literal(b"b", b"x" * 15_000)
)
BOMB: Final = frame(HEADERS, 4, 1, b"\x40" + literal(b"x", b"x" * 3900)[1:])
"""A stream with a malformed head, whose field is in the table from then on."""
STATES: Final = (
    ("mqtt", "MQTT: connected, silent", b""),
    ("mqtt", "MQTT: 60 KB of a CONNECT", HALF_CONNECT),
    ("http", "MQTT over WebSocket: handshake", UPGRADE),
    ("amqp", "AMQP: connected, silent", b""),
    ("amqp", "AMQP: 16 KB of a frame", HALF_FRAME),
    ("http", "HTTP: connected, silent", b""),
    ("http", "HTTP: 60 KB of a head", HALF_HEAD),
    ("grpc", "gRPC: greeted, silent", GREETED),
    ("grpc", "gRPC: 30 KB of a block of fields", GREETED + HALF_BLOCK),
    ("grpc", "gRPC: 60 KB of a request", GREETED + CALL + frame(DATA, 0, 1, bytes(15_000)) * 4),
    ("grpc", "gRPC: 100 calls that have no request", GREETED + b"".join(map(called, range(1, 200, 2)))),
)
FLOODS: Final = (
    ("http", "empty WebSocket fragments", UPGRADE + b"\x02\x80" + bytes(4), EMPTY_FRAGMENT * UNITS_AT_ONCE),
    ("amqp", "AMQP heartbeats", AMQP_HEADER, b"\x08\x00\x00\x00\x00\x00\x00\xce" * UNITS_AT_ONCE),
    ("http", "HTTP headers of one byte", b"GET / HTTP/1.1\r\n", b"a:b\r\n" * UNITS_AT_ONCE),
    ("grpc", "gRPC: PING", GREETED, frame(PING, 0, 0, bytes(8)) * UNITS_AT_ONCE),
    ("grpc", "gRPC: SETTINGS", GREETED, settings_frame((4, 9), (4, 8)) * UNITS_AT_ONCE),
    ("grpc", "gRPC: PRIORITY", GREETED, frame(PRIORITY, 0, 1, bytes(5)) * UNITS_AT_ONCE),
    ("grpc", "gRPC: empty DATA", GREETED + CALL, frame(DATA, 0, 1) * UNITS_AT_ONCE),
    ("grpc", "gRPC: CONTINUATION", GREETED + frame(HEADERS, 0, 1, b"\x82"), frame(CONTINUATION, 0, 1) * UNITS_AT_ONCE),
    ("grpc", "gRPC: streams reset at once", GREETED, _resets()),
    ("grpc", "gRPC: a table's bomb", GREETED + BOMB, frame(HEADERS, 4, 3, b"\xbe" * 16_000)),
    ("grpc", "gRPC: windows of one byte", GREETED, number_frame(WINDOW_UPDATE, 0, 1) * UNITS_AT_ONCE),
)
"""Door, name, what is said first, and what is said again and again."""


def run(console: Console, *, quick: bool) -> Report:
    """Run for a minute."""
    count, pings = (CONNECTIONS // 5, PINGS // 5) if quick else (CONNECTIONS, PINGS)
    report = Report("unauthenticated", f"{count} connections that have not logged in", "more after three times more")
    for door, what, sent in STATES:
        console.print(what, style="dim")
        with entrepot() as server:
            _hold(server, door, sent, WARM_UP)  # one-time memory stays
            before = own_resident_bytes(server.pid)
            held = _hold(server, door, sent, count)
            again = max(_hold(server, door, sent, count) for _ in range(3))
            report.add(f"{what}: memory of one", "B", (held - before) / count, (again - held) / count)
    with entrepot() as server:
        _report_waits(report, "PINGREQ beside nothing", _waits(server, pings))
    for door, what, first, burst in FLOODS:
        console.print(what, style="dim")
        with entrepot() as server:
            _beside(server, door, first, burst, WARM_UP)
            before = own_resident_bytes(server.pid)
            _report_waits(report, f"PINGREQ beside {what}", _beside(server, door, first, burst, pings))
            report.add(f"{what}: memory of it", "KiB", (own_resident_bytes(server.pid) - before) / 1024)
    report.notes += [
        "memory is what the server's resident size grows by, by the number of connections; what gone ones had is used"
        " again: the second column is what three more rounds of as many add",
        f"a flood is one client that sends {UNITS_AT_ONCE:,} units at a time and comes back when it is cut off",
        "memory of a flood is what the server has more after a second one",
    ]
    return report


def _hold(server: Server, door: str, sent: bytes, count: int) -> int:
    """The server's memory while `count` connections are there."""
    with ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.ports[door])))
            client.sendall(sent)
        time.sleep(SETTLE_SECONDS)
        return own_resident_bytes(server.pid)


def _beside(server: Server, door: str, first: bytes, burst: bytes, pings: int) -> list[float]:
    """Times of answers to PINGREQ beside a flood."""
    stop = threading.Event()

    def flood() -> None:
        while not stop.is_set():
            with suppress(OSError), socket.create_connection(("127.0.0.1", server.ports[door]), 5) as client:
                client.sendall(first)
                while not stop.is_set():
                    client.sendall(burst)

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        return _waits(server, pings)
    finally:
        stop.set()
        thread.join()


def _waits(server: Server, pings: int) -> list[float]:
    with socket.create_connection(("127.0.0.1", server.ports["mqtt"]), 20) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01p")
        if client.recv(4) != b"\x20\x02\x00\x00":
            raise BenchmarkError("the server does not let the client in")
        waits = []
        for _ in range(pings):
            asked = time.perf_counter()
            client.sendall(b"\xc0\x00")
            client.recv(2)
            waits.append((time.perf_counter() - asked) * 1000)
        return waits


def _report_waits(report: Report, what: str, waits: list[float]) -> None:
    report.add(f"{what}, median", "ms", statistics.median(waits))
    report.add(f"{what}, 99th percentile", "ms", sorted(waits)[int(len(waits) * 0.99)])
