"""What is left of a connection that is gone: nothing, at once, without the garbage collector (contract row 18).

An unfinished packet, a transaction or a window that waits for a rare collection is memory that anybody may take.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pika  # type: ignore[import-untyped]
import pytest
import uvloop

from entrepot.domain.topic import Topic
from entrepot.gateway.app import Gateway
from entrepot.gateway.clock import SystemClock
from entrepot.gateway.settings import Settings
from entrepot.gateway.transport.binding import bind
from entrepot.protocols.http2.frames import DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS
from entrepot.protocols.http2.frames import frame as frame_of
from entrepot.protocols.http2.hpack import literal
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Connect, Disconnect
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.http.websocket_client import BINARY, WebSocketClient, frame
from tests.support.mqtt.client import RawClient
from tests.support.stores.model_store.by_settings import model_store_of
from tests.support.waiting import PATIENCE_SECONDS

OF_CONNECTIONS = (
    "entrepot.gateway.transport.driver", "entrepot.gateway.transport.", "entrepot.gateway.amqp.connections.",
    "entrepot.gateway.mqtt.connections.",
    "entrepot.gateway.mqtt.sessions.session", "entrepot.gateway.rocketmq.", "entrepot.gateway.http.connection",
    "entrepot.gateway.http.streaming.event_socket", "entrepot.protocols.", "wsproto.", "h11.", "httptools.",
    "asyncio.streams", "entrepot.domain.errors.",
)  # fmt: skip
"""Beginnings of names of classes.  What Starlette's task of a stream leaves to the collector has no bytes."""
KEPT = frozenset({"entrepot.gateway.mqtt.connections.history.ClientEvent"})
"""Kept on purpose, for operators, within limits of their own (`test_client_history.py`)."""
HALF_CONNECT = b"\x10\xe0\xd4\x03\x00\x04MQTT\x05" + b"x" * 40_000
AMQP_HEADER = b"AMQP\x00\x00\x09\x01"
MOST_TOPICS = 3
Ports = dict[str, int]


def objects_of_connections() -> Counter[str]:
    """Those there are, by class."""
    by_class = Counter(map(type, gc.get_objects()))
    named = ((f"{each.__module__}.{each.__qualname__}", count) for each, count in by_class.items())
    return Counter({name: count for name, count in named if name.startswith(OF_CONNECTIONS) and name not in KEPT})


# -- connections, each from its beginning to its end ---------------------------------------------------------------


def mqtt_silent(ports: Ports) -> None:
    RawClient(ports["mqtt"]).socket.close()


def mqtt_half_connect(ports: Ports) -> None:
    with RawClient(ports["mqtt"]) as client:
        client.send(HALF_CONNECT)


def mqtt_refused(ports: Ports) -> None:
    with RawClient(ports["mqtt"], 4) as client:
        client.say(Connect("", 4, False))
        client.read_to_end()


def mqtt_broken(ports: Ports) -> None:
    with RawClient(ports["mqtt"]) as client:
        client.connect("broken")
        client.send(b"\x00\x00")
        client.read_to_end()


def mqtt_goodbye(ports: Ports) -> None:
    with RawClient(ports["mqtt"]) as client:
        client.connect("goodbye")
        client.say(Disconnect(ReasonCode.SUCCESS))
        client.read_to_end()


def mqtt_reset_with_half_publish(ports: Ports) -> None:
    with RawClient(ports["mqtt"]) as client:
        client.connect("half")
        client.send(b"\x30\xff\xff\x7f\x00\x01t" + b"x" * 100_000)
        client.reset()


def mqtt_session(ports: Ports) -> None:
    with RawClient(ports["mqtt"]) as client:
        expiry = {PropertyId.SESSION_EXPIRY_INTERVAL: 100}
        client.connect("session", clean_start=False, properties=expiry)
        client.subscribe("a/#", "$share/g/a/#", "$replay/earliest/a/#")
        client.publish("a/b")
        client.expect_deliveries(2)


def mqtt_taken_over(ports: Ports) -> None:
    with RawClient(ports["mqtt"]) as older, RawClient(ports["mqtt"]) as newer:
        older.connect("same")
        newer.connect("same")
        older.read_to_end()


def ws_half_handshake(ports: Ports) -> None:
    with socket.create_connection(("127.0.0.1", ports["ws"])) as client:
        client.sendall(b"GET /mqtt HTTP/1.1\r\nHost")


def ws_half_connect(ports: Ports) -> None:
    with WebSocketClient(ports["ws"], "/mqtt") as client:
        client.socket.sendall(frame(BINARY, HALF_CONNECT)[:-10])


def ws_on_http(ports: Ports) -> None:
    with WebSocketClient(ports["http"], "/mqtt") as client:
        client.socket.sendall(frame(BINARY, encode(Connect("web", 5), 5)))
        client.socket.recv(100)


def http_half_head(ports: Ports) -> None:
    with socket.create_connection(("127.0.0.1", ports["http"])) as client:
        client.sendall(b"GET / HTTP/1.1\r\nx: " + b"x" * 30_000)


def http_half_body(ports: Ports) -> None:
    with socket.create_connection(("127.0.0.1", ports["http"])) as client:
        client.sendall(b"POST /topics/x:publish HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nabc")


def http_answered(ports: Ports) -> None:
    with socket.create_connection(("127.0.0.1", ports["http"])) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert client.recv(1000)


def http_garbage(ports: Ports) -> None:
    with socket.create_connection(("127.0.0.1", ports["http"])) as client:
        client.sendall(b"\x00\x00\r\n\r\n")
        assert client.recv(1000)


def http_refused(ports: Ports) -> None:
    """Refusals on the hot way, of a batch and of other routes."""
    event = "ce-specversion: 1.0\r\nce-id: 1\r\nce-type: t\r\nce-source: /s\r\n"
    for line, headers in (
        ("POST /topics/beyond:publish", event),
        ("POST /topics/x:publish", ""),
        ("POST /topics/beyond/eventsubscriptions/g:receive", ""),
        ("GET /api/v1/topics/beyond", ""),
    ):
        with socket.create_connection(("127.0.0.1", ports["http"])) as client:
            client.sendall(f"{line} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: 0\r\n\r\n".encode())
            assert client.recv(1000).split()[1] in (b"400", b"404", b"429")


def mqtt_publish_refused(ports: Ports) -> None:
    with RawClient(ports["mqtt"]) as client:
        client.connect("refused")
        assert client.publish("$SYS/a").reason >= ReasonCode.UNSPECIFIED_ERROR
        client.say(Disconnect(ReasonCode.SUCCESS))
        client.read_to_end()


def amqp_refused(ports: Ports) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", ports["amqp"]))
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        connection.channel().queue_declare("beyond", passive=True)
    connection.close()


def event_socket(ports: Ports) -> None:
    path = "/topics/x/eventsubscriptions/g:stream"
    with WebSocketClient(ports["http"], path, protocols="cloudevents.json") as client:
        assert client.status == 101
        client.socket.sendall(frame(BINARY, b"x" * 30_000)[:-10])


def server_sent_events(ports: Ports) -> None:
    with socket.create_connection(("127.0.0.1", ports["http"])) as client:
        client.sendall(b"GET /topics/x/events HTTP/1.1\r\nhost: x\r\n\r\n")
        assert client.recv(1000)


def amqp_silent(ports: Ports) -> None:
    socket.create_connection(("127.0.0.1", ports["amqp"])).close()


def amqp_half_frame(ports: Ports) -> None:
    with socket.create_connection(("127.0.0.1", ports["amqp"])) as client:
        client.sendall(AMQP_HEADER + b"\x01\x00\x00\x00\x00\x20\x00" + b"x" * 5000)
        assert client.recv(1000)


def amqp_busy(ports: Ports, *, is_lost: bool = False) -> None:
    """Channels with a transaction, a consumer that holds a message, and confirms."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", ports["amqp"]))
    transacted, consuming, confirming = (connection.channel() for _ in range(3))
    transacted.queue_declare("freed")
    transacted.tx_select()
    transacted.basic_publish("", "freed", b"x" * 100_000)
    confirming.confirm_delivery()
    confirming.basic_publish("", "freed", b"y")
    consuming.basic_consume("freed", lambda *_: None)
    connection.process_data_events(0.1)
    if is_lost:
        connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
    else:
        connection.close()


def amqp_lost(ports: Ports) -> None:
    with contextlib.suppress(pika.exceptions.AMQPError):
        amqp_busy(ports, is_lost=True)


GREETING = PREFACE + frame_of(SETTINGS, 0, 0)
HEARTBEAT = b"".join(
    literal(name, value)
    for name, value in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/apache.rocketmq.v2.MessagingService/Heartbeat"),
        (b"content-type", b"application/grpc"), (b"x-mq-client-id", b"freed"),
    )
)  # fmt: skip


def grpc_half_preface(ports: Ports) -> None:
    with socket.create_connection(("127.0.0.1", ports["grpc"])) as client:
        client.sendall(PREFACE[:10])


def grpc_half_request(ports: Ports) -> None:
    with socket.create_connection(("127.0.0.1", ports["grpc"])) as client:
        client.sendall(GREETING + frame_of(HEADERS, END_HEADERS, 1, HEARTBEAT))
        client.sendall(frame_of(DATA, 0, 1, b"\0\0\1\0\0" + b"x" * 10_000))
        assert client.recv(1000)


def grpc_half_block(ports: Ports) -> None:
    with socket.create_connection(("127.0.0.1", ports["grpc"])) as client:
        client.sendall(GREETING + frame_of(HEADERS, 0, 1, HEARTBEAT))
        assert client.recv(1000)


def grpc_refused(ports: Ports) -> None:
    with socket.create_connection(("127.0.0.1", ports["grpc"])) as client:
        client.sendall(GREETING + frame_of(DATA, 0, 2, b"x"))
        while client.recv(1000):
            pass


def grpc_answered(ports: Ports) -> None:
    with socket.create_connection(("127.0.0.1", ports["grpc"])) as client:
        client.sendall(GREETING + frame_of(HEADERS, END_HEADERS, 1, HEARTBEAT))
        client.sendall(frame_of(DATA, END_STREAM, 1, bytes(5)))
        found = b""
        while b"grpc-status" not in found:
            found += client.recv(1000)


def grpc_conversing(ports: Ports) -> None:
    with socket.create_connection(("127.0.0.1", ports["grpc"])) as client:
        block = HEARTBEAT.replace(
            literal(b":path", b"/apache.rocketmq.v2.MessagingService/Heartbeat"),
            literal(b":path", b"/apache.rocketmq.v2.MessagingService/Telemetry"),
        )
        client.sendall(GREETING + frame_of(HEADERS, END_HEADERS, 1, block) + frame_of(DATA, 0, 1, bytes(5)))
        assert client.recv(1000)


WAYS = (
    mqtt_silent, mqtt_half_connect, mqtt_refused, mqtt_broken, mqtt_goodbye, mqtt_reset_with_half_publish, mqtt_session,
    mqtt_taken_over, ws_half_handshake, ws_half_connect, ws_on_http, http_half_head, http_half_body, http_answered,
    http_garbage, http_refused, mqtt_publish_refused, amqp_refused, event_socket, server_sent_events,
    amqp_silent, amqp_half_frame, amqp_busy, amqp_lost,
    grpc_half_preface, grpc_half_request, grpc_half_block, grpc_refused, grpc_answered, grpc_conversing,
)  # fmt: skip


# -- the server ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """What is there now is not looked at either."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


async def what_stays(way: Callable[[Ports], None], ports: Ports) -> dict[str, int]:
    """Objects that a connection has left behind."""
    await asyncio.to_thread(way, ports)  # what is made once and stays is made
    await asyncio.sleep(0.05)
    before = objects_of_connections()
    await asyncio.to_thread(way, ports)
    end = time.monotonic() + PATIENCE_SECONDS
    while (more := objects_of_connections() - before) and time.monotonic() < end:
        await asyncio.sleep(0.02)
    return dict(more)


async def check_all() -> dict[str, dict[str, int]]:
    settings = Settings.model_validate({"grpc": {"tls": "off"}, "topics": {"max_auto_created": MOST_TOPICS}})
    clock = SystemClock()
    sockets = {door: bind("127.0.0.1", 0) for door in ("mqtt", "ws", "amqp", "http", "grpc")}
    ports = {door: listener.getsockname()[1] for door, listener in sockets.items()}
    store = model_store_of(settings, clock)
    gateway = Gateway(settings, store, clock, sockets)
    gateway.security.setup_token.path = None  # there is no data directory
    await gateway.start()
    for name in ("a", "x", "third")[:MOST_TOPICS]:
        await store.topology.put_topic(Topic(name))
    try:
        with without_collector():
            return {way.__name__: stays for way in WAYS if (stays := await what_stays(way, ports))}
    finally:
        await gateway.drain()
        await store.close()


@pytest.mark.filterwarnings("ignore")
def test_nothing_of_a_connection_outlives_it() -> None:
    assert uvloop.run(check_all()) == {}
