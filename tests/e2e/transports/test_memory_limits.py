"""Bounds in bytes and in time, at a real server: before the login, of readers that never read, of transactions."""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pika  # type: ignore[import-untyped]
import pytest

from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Connack, Connect, Pingreq, Pingresp, Will
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.cases import cases
from tests.support.http.websocket_client import BINARY, CONTINUATION, WebSocketClient, frame
from tests.support.mqtt.client import RawClient
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.tiers.marks import scaled

MIB = 1 << 20
KIB = 1 << 10
SHARED_BYTES = 4 * MIB
HALF_CONNECT = b"\x10\xe0\xd4\x03\x00\x04MQTT\x05" + b"x" * 50_000
AMQP_HEADER = b"AMQP\x00\x00\x09\x01"
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
BIG = b"x" * (512 * KIB)
READERS_MARGIN = 128 * MIB
"""For six readers that read nothing: a read of the store (16 MiB at most) and buffers of a few MiB for each.  Without
bounds they cost three times as much, and more with every message."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {
        "server.max_unauthenticated_bytes": str(SHARED_BYTES),
        "amqp.max_transaction_bytes": str(MIB),
        "mqtt.ws_port": "0",
    }
    with ServerProcess(tmp_path_factory.mktemp("limits"), settings) as running:
        yield running
        assert running.stop() == 0
        assert "Traceback" not in running.log_text(), running.log_text()


@contextmanager
def growth_below(server: ServerProcess, most: int) -> Iterator[None]:
    before = server.resident_bytes()
    yield
    grown = server.resident_bytes() - before
    assert grown < most, f"{grown / MIB:.1f} MiB more"


def amqp_connection(server: ServerProcess) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port("amqp")))


# -- before the login ----------------------------------------------------------------------------------------------


@cases("version", [4, 5])
def test_a_large_connect_is_refused_and_told_why(server: ServerProcess, version: int) -> None:
    def connect(payload: int) -> Connect:
        return Connect("will", version, True, will=Will("t", b"w" * payload), username="u", password=b"p" * 5000)

    with RawClient(server.port("mqtt"), version) as client:
        client.say(connect(59_000))
        assert client.expect(Connack).reason == 0
    with RawClient(server.port("mqtt"), version) as client:
        client.send(encode(connect(65_000), version)[:100])  # as soon as it says how large it is
        expected = [ReasonCode.PACKET_TOO_LARGE] if version == 5 else []
        assert [packet.reason for packet in client.read_to_end() if isinstance(packet, Connack)] == expected


@pytest.mark.scaled
def test_half_connects_one_after_the_other_leave_nothing(server: ServerProcess) -> None:
    with growth_below(server, 8 * MIB):
        for _ in range(scaled(100, 400)):
            with RawClient(server.port("mqtt")) as client:
                client.send(HALF_CONNECT)


def half_connect(server: ServerProcess) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port("mqtt")))
    client.sendall(HALF_CONNECT)
    return client


def half_head(server: ServerProcess) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port("http")))
    client.sendall(b"GET / HTTP/1.1\r\nx: " + b"x" * 50_000)
    return client


def half_frame(server: ServerProcess) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port("amqp")))
    client.sendall(AMQP_HEADER + b"\x01\x00\x00\x00\x00\x3f\x00" + b"x" * 16_000)
    return client


@pytest.mark.parametrize(
    ("attack", "listener"),
    [(half_connect, "mqtt"), (half_head, "http"), (half_frame, "amqp")],
    ids=["half a CONNECT", "half a head", "half a frame"],
)
def test_all_together_share_a_bound_before_the_login(
    server: ServerProcess, attack: Callable[[ServerProcess], socket.socket], listener: str
) -> None:
    """Those beyond it are refused for that, and not for their time; who only logs in comes in."""
    heard: dict[socket.socket, bytes] = {}

    def is_closed(client: socket.socket) -> bool:
        data, is_over = what_came(client)
        heard[client] = heard.get(client, b"") + data
        return is_over

    with growth_below(server, 6 * SHARED_BYTES), ExitStack() as stack:
        clients = [stack.enter_context(attack(server)) for _ in range(400)]
        wait_until(lambda: sum(map(is_closed, clients)) > 50, "those beyond the bound are closed")
        if listener == "http":
            assert sum(b" 503 " in each for each in heard.values()) > 50
        else:  # where no word is sent before the login
            told = f"listener={listener} reason='connections that have not logged in hold too much'"
            wait_until(lambda: told in server.log_text(), server.log_text)
        with RawClient(server.port("mqtt")) as good:
            assert good.connect("good").reason == 0
        amqp_connection(server).close()

    def has_room() -> bool:  # what they held is given back
        with RawClient(server.port("mqtt")) as large:
            with suppress(OSError, AssertionError):
                large.say(Connect("large", 5, will=Will("t", b"w" * 60_000)))
                return large.expect(Connack).reason == 0
            return False

    wait_until(has_room, "there is room again")


def what_came(client: socket.socket) -> tuple[bytes, bool]:
    """What the server has sent, and whether it has closed the connection."""
    client.setblocking(False)
    data = b""
    try:
        while more := client.recv(65_536):
            data += more
    except BlockingIOError:
        return data, False
    except ConnectionError:
        pass
    return data, True


def floods() -> list[tuple[str, Callable[[ServerProcess], socket.socket], bytes]]:
    def web(server: ServerProcess) -> socket.socket:
        client = WebSocketClient(server.port("ws"), "/mqtt").socket
        client.sendall(frame(BINARY, b"", fin=False))
        return client

    def amqp(server: ServerProcess) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", server.port("amqp")))
        client.sendall(AMQP_HEADER)
        return client

    def logged_in(server: ServerProcess) -> socket.socket:
        client = RawClient(server.port("mqtt"))
        client.connect("flood")
        threading.Thread(target=drain, args=(client.socket,), daemon=True).start()
        return client.socket

    empty = frame(CONTINUATION, b"", fin=False)
    return [
        ("empty WebSocket fragments", web, empty),
        ("AMQP heartbeats", amqp, HEARTBEAT),
        ("PINGREQ after the login", logged_in, encode(Pingreq(), 4)),
    ]


def drain(client: socket.socket) -> None:
    """Read what comes until the end."""
    with suppress(OSError):
        while client.recv(1 << 20):
            pass


@pytest.mark.soak
@pytest.mark.parametrize(("name", "connect", "unit"), floods(), ids=lambda each: each if isinstance(each, str) else "")
def test_small_frames_hold_up_nobody(
    server: ServerProcess, name: str, connect: Callable[[ServerProcess], socket.socket], unit: bytes
) -> None:
    """Sent as fast as one can, again on a new connection where that is closed; a client beside is answered."""
    stop = threading.Event()
    closed = sent = 0

    def flood() -> None:
        nonlocal closed, sent
        while not stop.is_set():
            with suppress(OSError), connect(server) as client:
                client.settimeout(PATIENCE_SECONDS)
                while not stop.is_set():
                    client.sendall(unit * 20_000)
                    sent += 1
            closed += 1

    thread = threading.Thread(target=flood)
    with RawClient(server.port("mqtt")) as client:
        client.connect("beside")
        thread.start()
        waits: list[float] = []
        try:
            while (closed < 2 and sent < 20) or len(waits) < 100:
                asked = time.perf_counter()
                client.say(Pingreq())
                client.expect(Pingresp)
                waits.append(time.perf_counter() - asked)
        finally:
            stop.set()
            thread.join()
    assert statistics.median(waits) < 0.5, sorted(waits)[-5:]
    assert max(waits) < 5, sorted(waits)[-5:]


# -- after the login -----------------------------------------------------------------------------------------------


def publish_and_commit(channel: Any, count: int) -> None:
    for _ in range(count):
        channel.basic_publish("", "nowhere", b"x" * 100_000)
    channel.tx_commit()


def test_a_transaction_has_a_limit_in_bytes(server: ServerProcess) -> None:
    connection = amqp_connection(server)
    for _ in range(3):  # and what it held is forgotten with it
        channel = connection.channel()
        channel.tx_select()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="max_transaction_bytes") as refused:
            publish_and_commit(channel, 30)
        assert refused.value.reply_code == 406
    channel = connection.channel()
    channel.tx_select()
    for _ in range(3):  # each its own
        publish_and_commit(channel, 9)
    connection.close()


def deaf(port: int) -> socket.socket:
    """A socket whose peer's bytes stay with the peer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    return client


@pytest.mark.soak
def test_readers_that_never_read_cost_a_bounded_part(server: ServerProcess) -> None:
    """At MQTT, as a subscriber and in a share, at AMQP and HTTP; who publishes is not held up, who reads gets all."""
    count = 160
    with ExitStack() as stack:
        quick = stack.enter_context(RawClient(server.port("mqtt")))
        quick.connect("quick")
        quick.subscribe("big/#")
        for name, wanted, expiry in (("plain", "big/#", 0), ("kept", "big/#", 100), ("shared", "$share/s/big/#", 0)):
            client = stack.enter_context(RawClient(server.port("mqtt"), receive_buffer=4096))
            client.connect(name, properties={PropertyId.SESSION_EXPIRY_INTERVAL: expiry})
            client.subscribe(wanted)
        events = stack.enter_context(deaf(server.port("http")))
        events.sendall(b"GET /topics/big/events HTTP/1.1\r\nhost: x\r\n\r\n")
        connection = amqp_connection(server)
        channel = connection.channel()
        channel.queue_declare("big")
        channel.queue_bind("big", "amq.topic", "big.x")
        with growth_below(server, READERS_MARGIN):
            consumers: list[pika.BlockingConnection] = []
            for _ in range(2):
                connection_of = amqp_connection(server)
                connection_of.channel().basic_consume("big", lambda *_: None, auto_ack=bool(consumers))
                consumers.append(connection_of)
            publisher = stack.enter_context(RawClient(server.port("mqtt")))
            publisher.connect("publisher")
            for number in range(count):
                publisher.publish("big/x", BIG)
                channel.basic_publish("amq.topic", "big.x", BIG)
                if number % 8 == 7:
                    quick.expect_deliveries(8)
        for each in (connection, *consumers):
            each._impl._transport._sock.close()
