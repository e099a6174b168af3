"""Greetings: versions, clusters, and what may not come before them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.wire.connection import ClientConnection, Goodbye, Greeted, ServerConnection, Welcomed
from entrepot.protocols.wire.frames import (
    MAX_GREETING_BYTES,
    MAX_PAYLOAD_BYTES,
    VERSION,
    FrameKind,
    FrameReader,
    Hello,
    RemotingError,
    Welcome,
    frame,
)
from tests.support.cases import cases

HELLO = Hello([VERSION], "tests", "here")


def hello(value: object) -> bytes:
    return frame(FrameKind.HELLO, 0, msgspec.msgpack.encode(value))


def goodbye_of(server: ServerConnection, data: bytes) -> str:
    """What is said to who is refused."""
    with pytest.raises(RemotingError):
        server.receive_data(data)
    *_, last = FrameReader(MAX_GREETING_BYTES).read(server.data_to_send())
    assert last.kind == FrameKind.GOODBYE
    return last.payload.decode()


@given(st.lists(st.integers(0, 1 << 40), max_size=6), st.text(max_size=30))
def test_they_greet_where_both_know_a_version(others: list[int], who: str):
    client = ClientConnection(Hello([*others, VERSION], who, "here"))
    server = ServerConnection("broker", 1000, "here")
    [greeted] = server.receive_data(client.data_to_send())
    assert greeted == Greeted(Hello([*others, VERSION], who, "here"))
    [welcomed] = client.receive_data(server.data_to_send())
    assert welcomed == Welcomed(Welcome(VERSION, "broker", 1000, "here", MAX_PAYLOAD_BYTES))


@given(st.lists(st.integers(0, 1 << 63).filter(lambda version: version != VERSION), max_size=400))
def test_no_common_version_ends_it(versions: list[int]):
    server = ServerConnection("broker", 1000, "here")
    assert "version" in goodbye_of(server, hello([versions, "tests", "here"]))
    assert server.hello is None


@given(st.text(max_size=300).filter(lambda name: name != "here"))
def test_another_cluster_is_refused(cluster: str):
    client = ClientConnection(Hello([VERSION], "tests", cluster))
    server = ServerConnection("broker", 1000, "here")
    with pytest.raises(RemotingError, match="cluster"):
        server.receive_data(client.data_to_send())
    [said] = client.receive_data(server.data_to_send())
    assert isinstance(said, Goodbye)
    assert "'here'" in said.text


@cases("kind", [kind for kind in FrameKind if kind not in (FrameKind.HELLO, FrameKind.GOODBYE)])
def test_a_server_takes_nothing_before_the_hello(kind: FrameKind):
    assert "before the hello" in goodbye_of(ServerConnection("broker", 1000), frame(kind, 1))


@cases("kind", [kind for kind in FrameKind if kind not in (FrameKind.WELCOME, FrameKind.GOODBYE, FrameKind.CHALLENGE)])
def test_a_client_takes_nothing_before_the_welcome(kind: FrameKind):
    with pytest.raises(RemotingError, match="before the welcome"):
        ClientConnection(HELLO).receive_data(frame(kind, 1))


@cases(
    "payload",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode({"versions": [VERSION]}),
        msgspec.msgpack.encode([["1"], "tests"]),
        msgspec.msgpack.encode([[VERSION]]),
        b"\x93\x91\x01\xa2\x00\x80\xa0",  # text that is none
        b"\x94\x91\x01\xa0\xa0" + b"\x91" * 4000 + b"\x90",  # nested beyond what can be read
    ],
)
def test_greetings_that_cannot_be_read(payload: bytes):
    assert "cannot be read" in goodbye_of(ServerConnection("broker", 1000), frame(FrameKind.HELLO, 0, payload))
    with pytest.raises(RemotingError, match="cannot be read"):
        ClientConnection(HELLO).receive_data(frame(FrameKind.WELCOME, 0, payload))


def test_a_greeting_has_a_limit_and_what_follows_has_another():
    server = ServerConnection("broker", 1 << 20, "here")
    assert "limit" in goodbye_of(server, frame(FrameKind.HELLO, 0, bytes(MAX_GREETING_BYTES + 1)))
    server = ServerConnection("broker", 1 << 20, "here")
    server.receive_data(hello(HELLO))
    assert len(server.receive_data(frame(FrameKind.REQUEST, 1, bytes(MAX_GREETING_BYTES + 1), operation=1))) == 1


def test_a_server_of_another_version_is_not_spoken_to():
    welcome = msgspec.msgpack.encode(Welcome(VERSION + 1, "broker", 1000))
    with pytest.raises(RemotingError, match="version"):
        ClientConnection(HELLO).receive_data(frame(FrameKind.WELCOME, 0, welcome))


def test_nobody_greets_twice():
    server = ServerConnection("broker", 1000, "here")
    server.receive_data(hello(HELLO))
    assert "HELLO" in goodbye_of(server, hello(HELLO))
