"""MQTT over WebSocket, on its own port and on the HTTP port: what MQTT 5 section 6 and RFC 6455 ask for."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Subscription,
)
from tests.support.cases import cases
from tests.support.http.websocket_client import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, WebSocketClient, frame
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until


def wire(*packets: Packet) -> bytes:
    return b"".join(encode(packet, 5) for packet in packets)


@pytest.fixture(params=["ws", "http"])
def port(request: pytest.FixtureRequest, server: ServerProcess) -> int:
    return server.port(request.param)


@pytest.fixture
def client(port: int) -> Iterator[WebSocketClient]:
    with WebSocketClient(port) as connected:
        assert connected.status == 101
        yield connected


@pytest.fixture
def session(client: WebSocketClient) -> WebSocketClient:
    client.send(frame(BINARY, wire(Connect("", 5))))
    assert isinstance(client.read_packet(), Connack)
    return client


@cases("offered, chosen", [("mqtt", "mqtt"), ("mqttv3.1", "mqttv3.1"), ("x, mqttv3.1, mqtt", "mqtt")])
def test_the_sub_protocol_is_chosen_and_nothing_else_is_agreed_on(port: int, offered: str, chosen: str) -> None:
    with WebSocketClient(port, protocols=offered, Sec_WebSocket_Extensions="permessage-deflate") as client:
        assert client.status == 101
        assert client.headers["sec-websocket-protocol"] == chosen
        assert "sec-websocket-extensions" not in client.headers


@cases("offered", [None, "amqp", "mqtt5, MQTT"])
def test_without_a_sub_protocol_of_ours_it_is_refused(port: int, offered: str | None) -> None:
    with WebSocketClient(port, protocols=offered) as client:
        assert client.status == 400
        assert client.at_end()


def test_another_path_is_refused(server: ServerProcess) -> None:
    for door in ("ws", "http"):
        for path in ("/", "/mqtt/x", "/other"):
            with WebSocketClient(server.port(door), path) as client:
                assert client.status == 404
        with WebSocketClient(server.port(door), "/mqtt?token=1") as client:
            assert client.status == 101


@pytest.mark.parametrize(
    "request_text", [b"GET /mqtt HTTP/1.1\r\nHost: x\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\n\r\n"]
)
def test_what_is_no_handshake_is_refused(server: ServerProcess, request_text: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port("ws")), PATIENCE_SECONDS) as plain:
        plain.sendall(request_text)
        assert plain.recv(1000).startswith(b"HTTP/1.1 400 ")
        assert plain.recv(1000) == b""


ASKED = (
    b"Host: localhost\r\nSec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n"
)
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
LISTS = {
    "lists": b"Connection: keep-alive, Upgrade\r\nUpgrade: h2c, WebSocket\r\n",
    "several headers": b"Connection: Upgrade\r\nConnection: x\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n",
    "an empty body": UPGRADE + b"Content-Length: 0\r\n",
}
NO_HANDSHAKES = {
    "another protocol": b"GET /mqtt HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n" + ASKED + b"\r\n",
    "no Connection": b"GET /mqtt HTTP/1.1\r\nUpgrade: websocket\r\n" + ASKED + b"\r\n",
    "HTTP/1.0": b"GET /mqtt HTTP/1.0\r\n" + UPGRADE + ASKED + b"\r\n",
    "POST": b"POST /mqtt HTTP/1.1\r\n" + UPGRADE + ASKED + b"Content-Length: 1\r\n\r\nx",
    "a body": b"GET /mqtt HTTP/1.1\r\n" + UPGRADE + ASKED + b"Content-Length: 1\r\n\r\nx",
    "chunks": b"GET /mqtt HTTP/1.1\r\n" + UPGRADE + ASKED + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    "frames at once": b"GET /mqtt HTTP/1.1\r\n" + UPGRADE + ASKED + b"\r\n" + frame(BINARY, wire(Connect("", 5))),
    "CONNECT": b"CONNECT /mqtt HTTP/1.1\r\n" + UPGRADE + ASKED + b"\r\n",
}


@cases("headers", LISTS.values(), ids=tuple(LISTS))
def test_a_handshake_may_name_other_protocols(port: int, headers: bytes) -> None:
    """RFC 6455 4.2.1: both headers are lists."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as plain:
        plain.sendall(b"GET http://localhost/mqtt HTTP/1.1\r\n" + headers + ASKED + b"\r\n")
        assert plain.recv(1000).startswith(b"HTTP/1.1 101 ")


@cases("request_bytes", NO_HANDSHAKES.values(), ids=tuple(NO_HANDSHAKES))
def test_no_other_request_becomes_a_websocket(port: int, request_bytes: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as plain:
        plain.sendall(request_bytes)
        assert plain.recv(1000)[:10] in (b"HTTP/1.1 4", b"HTTP/1.1 5")


def test_a_head_without_end_is_refused(server: ServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", server.port("ws")), PATIENCE_SECONDS) as plain:
        plain.sendall(b"GET /mqtt HTTP/1.1\r\nX: " + b"x" * 70_000)
        try:
            answer = plain.recv(1000)
        except ConnectionResetError:
            return
        assert answer == b"" or b" 4" in answer[:13]


def test_packets_over_frames_and_frames_of_packets(session: WebSocketClient, topic: str) -> None:
    subscribe = wire(Subscribe(1, [Subscription(f"{topic}/#", 0)]))
    session.send(*(frame(BINARY, subscribe[at : at + 1]) for at in range(len(subscribe))))
    assert isinstance(session.read_packet(), Suback)
    publishes = wire(*(Publish(f"{topic}/x", str(n).encode(), 1, n) for n in (1, 2, 3)))
    session.send(frame(BINARY, publishes[:-3] + b""), frame(BINARY, publishes[-3:]))
    found = [session.read_packet() for _ in range(6)]
    assert [packet.packet_id for packet in found if isinstance(packet, Puback)] == [1, 2, 3]
    assert [packet.payload for packet in found if isinstance(packet, Publish)] == [b"1", b"2", b"3"]


def test_a_message_in_fragments_with_control_frames_between(session: WebSocketClient, topic: str) -> None:
    publish = wire(Publish(f"{topic}/x", b"x" * 300, 1, 9))
    session.send(
        frame(BINARY, publish[:10], fin=False),
        frame(PING, b"are you there"),
        frame(CONTINUATION, publish[10:200], fin=False),
        frame(CONTINUATION, b"", fin=False),
    )
    assert session.read_frame() == (PONG, b"are you there")
    session.send(frame(CONTINUATION, publish[200:]))
    assert session.read_packet() == Puback(9)


def test_a_frame_comes_byte_by_byte(session: WebSocketClient) -> None:
    for byte in frame(BINARY, wire(Pingreq())):
        session.send(bytes((byte,)))
    assert isinstance(session.read_packet(), Pingresp)


BAD = {
    "text": (frame(TEXT, b"hello"), 1003),
    "empty text": (frame(TEXT, b""), 1003),
    "no mask": (frame(BINARY, wire(Pingreq()), masked=False), 1002),
    "opcode": (frame(0x3, b"x"), 1002),
    "continuation": (frame(CONTINUATION, b"x"), 1002),
    "ping in parts": (frame(PING, b"x", fin=False), 1002),
    "reserved": (bytes((0xC2, 0x80)) + bytes(4), 1002),  # compression was not agreed on
    "large": (frame(BINARY, wire(Pingreq()) * 33_000), 1009),
    "endless": (b"\x82\xff" + (1 << 62).to_bytes(8, "big") + bytes(4) + wire(Pingreq()) * 40_000, 1009),
}


def test_what_ends_the_connection(port: int) -> None:
    with ExitStack() as stack:
        ended: list[tuple[str, WebSocketClient]] = []
        for name, (bad, code) in BAD.items():
            client = stack.enter_context(WebSocketClient(port))
            client.send(frame(BINARY, wire(Connect("", 5))))
            assert isinstance(client.read_packet(), Connack)
            client.send(bad)
            assert client.read_close() == code, name
            client.send(frame(CLOSE, code.to_bytes(2, "big")))
            ended.append((name, client))
        for name, client in ended:  # the server waits a moment for what is on its way, for all of them together
            assert client.at_end(), name


def test_what_came_before_a_bad_frame_counts(session: WebSocketClient, topic: str) -> None:
    session.send(frame(BINARY, wire(Pingreq())), frame(TEXT, b"x"))
    assert isinstance(session.read_packet(), Pingresp)
    assert session.read_close() == 1003


def test_the_client_closes(session: WebSocketClient) -> None:
    session.send(frame(BINARY, wire(Disconnect())), frame(CLOSE, (1000).to_bytes(2, "big") + b"bye"))
    assert session.read_close() == 1000
    assert session.at_end()


def test_the_server_closes_with_a_word_and_waits_for_the_answer(session: WebSocketClient) -> None:
    session.send(frame(BINARY, wire(Connect("", 5))))  # a second one is against the protocol
    assert isinstance(session.read_packet(), Disconnect)
    assert session.read_close() == 1000
    session.send(frame(PING, b"late"), frame(CLOSE, (1000).to_bytes(2, "big")))
    assert session.at_end()


def test_large_deliveries_come_in_frames_that_clients_take(server: ServerProcess, topic: str) -> None:
    with WebSocketClient(server.port("ws")) as client:
        client.send(frame(BINARY, wire(Connect("", 5), Subscribe(1, [Subscription(f"{topic}/#", 0)]))))
        assert isinstance(client.read_packet(), Connack)
        assert isinstance(client.read_packet(), Suback)
        body = bytes(range(256)) * 200
        for packet_id in range(1, 21):
            client.send(frame(BINARY, wire(Publish(f"{topic}/x", body, 1, packet_id))))
        found = [client.read_packet() for _ in range(40)]
        assert sum(packet.payload == body for packet in found if isinstance(packet, Publish)) == 20


def test_pings_of_websocket_are_no_sign_of_life_to_mqtt(port: int) -> None:
    with WebSocketClient(port) as client:
        client.send(frame(BINARY, wire(Connect("", 5, keep_alive=1))))
        assert isinstance(client.read_packet(), Connack)
        answers = 0

        def pinged_to_the_end() -> bool:
            nonlocal answers
            try:
                client.send(frame(PING, b"p"))
            except ConnectionError:
                return True
            found = client.read_frame()
            answers += found == (PONG, b"p")
            return found is None or found[0] in (BINARY, CLOSE)

        wait_until(pinged_to_the_end, "the keep-alive ends it")
        assert answers > 2
