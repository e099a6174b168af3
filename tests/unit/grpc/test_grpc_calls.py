"""gRPC's words: heads of calls, their deadlines, messages with their prefix and compression, and the status."""

from __future__ import annotations

import gzip
import math
import zlib
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.grpc.head import CallRefusedError, NotGrpcError, call_head
from entrepot.protocols.grpc.messages import DEFLATE, GZIP, IDENTITY, MessageError, MessageReader, framed
from entrepot.protocols.grpc.status import HEAD, MAX_TEXT_BYTES, Status, http_head, trailers
from entrepot.protocols.http2.hpack import HpackDecoder
from entrepot.protocols.http2.request import RequestHead
from tests.support.cases import cases

LIMIT = 1000
PLAIN = b"application/grpc"


def request(method: bytes = b"POST", **fields: bytes) -> RequestHead:
    named = {name.replace("_", "-").encode(): value for name, value in fields.items()}
    return RequestHead(method, b"/s/M", {b"content-type": PLAIN, **named}, -1)


@cases(
    "text, seconds",
    [(b"2H", 7200), (b"3M", 180), (b"5S", 5), (b"250m", 0.25), (b"7u", 7e-6), (b"99999999n", 0.099999999), (b"0S", 0)],
)
def test_deadlines(text: bytes, seconds: float):
    assert call_head(request(grpc_timeout=text)).timeout == pytest.approx(seconds)
    assert call_head(request()).timeout == math.inf


@cases("text", [b"", b"S", b"5", b"5s", b"-5S", b"1.5S", b"123456789S", "٣S".encode()])
def test_deadlines_that_are_none(text: bytes):
    with pytest.raises(CallRefusedError) as refused:
        call_head(request(grpc_timeout=text))
    assert refused.value.status is Status.INVALID_ARGUMENT


@cases(
    "head, status",
    [
        (request(b"GET"), 405),
        (request(content_type=b"application/json"), 415),
        (RequestHead(b"POST", b"/", {}, -1), 415),
    ],
)
def test_requests_of_others_are_told_where_they_are(head: RequestHead, status: int):
    with pytest.raises(NotGrpcError) as refused:
        call_head(head)
    assert refused.value.status == status
    assert "gRPC" in refused.value.text


def test_kinds_of_grpc_and_of_compression():
    assert call_head(request(content_type=b"application/grpc+proto")).encoding == IDENTITY
    assert call_head(request(grpc_encoding=b"gzip")).encoding == GZIP
    with pytest.raises(CallRefusedError) as refused:
        call_head(request(grpc_encoding=b"snappy"))
    assert refused.value.status is Status.UNIMPLEMENTED


@given(st.lists(st.binary(max_size=100), max_size=8), st.integers(1, 50))
def test_messages_come_whole_however_they_are_cut(messages: list[bytes], step: int):
    stream, reader = b"".join(map(framed, messages)), MessageReader(IDENTITY, LIMIT)
    found = [each for at in range(0, len(stream), step) for each in reader.feed(stream[at : at + step])]
    assert found == messages
    assert reader.held == 0


def compressed(message: bytes) -> bytes:
    return b"\1" + framed(message)[1:]


@cases("encoding, pack", [(GZIP, gzip.compress), (DEFLATE, zlib.compress)], ids=["gzip", "deflate"])
def test_compressed_messages(encoding: bytes, pack: object):
    assert callable(pack)
    reader = MessageReader(encoding, LIMIT)
    assert list(reader.feed(compressed(pack(b"x" * 900)) + framed(b"plain"))) == [b"x" * 900, b"plain"]


@cases(
    "sent, status",
    [
        (b"\0" + (LIMIT + 1).to_bytes(4, "big"), Status.RESOURCE_EXHAUSTED),
        (framed(bytes(LIMIT + 1)), Status.RESOURCE_EXHAUSTED),
        (compressed(gzip.compress(bytes(LIMIT + 1))), Status.RESOURCE_EXHAUSTED),
        (compressed(b"not gzip"), Status.INVALID_ARGUMENT),
        (compressed(gzip.compress(b"x" * 90)[:-3]), Status.INVALID_ARGUMENT),
        (compressed(gzip.compress(b"x") + b"more"), Status.INVALID_ARGUMENT),
        (b"\2" + framed(b"x")[1:], Status.UNIMPLEMENTED),
    ],
)
def test_messages_that_are_none(sent: bytes, status: Status):
    with pytest.raises(MessageError) as refused:
        list(MessageReader(GZIP, LIMIT).feed(sent))
    assert refused.value.status is status


def test_compression_has_to_be_named():
    with pytest.raises(MessageError) as refused:
        list(MessageReader(IDENTITY, LIMIT).feed(compressed(gzip.compress(b"x"))))
    assert refused.value.status is Status.UNIMPLEMENTED


def test_a_bomb_is_not_unpacked():
    bomb = zlib.compress(bytes(50_000_000))
    with pytest.raises(MessageError):
        list(MessageReader(DEFLATE, 1 << 20).feed(compressed(bomb)))


@given(st.text(max_size=200))
def test_the_text_of_a_status_comes_back(text: str):
    fields = dict(HpackDecoder(1 << 16).decode(trailers(Status.UNAVAILABLE, text)))
    assert fields[b"grpc-status"] == b"14"
    shown = fields[b"grpc-message"].decode("ascii")
    assert unquote(shown, errors="replace") == text.encode("utf-8", "replace").decode()
    assert shown.isprintable()


def test_blocks_fit_a_frame_and_are_read_by_others():
    assert len(trailers(Status.UNKNOWN, "é" * 9999)) < 4 * MAX_TEXT_BYTES
    assert HpackDecoder(999).decode(trailers(Status.OK, "no text")) == [(b"grpc-status", b"0")]
    assert HpackDecoder(999).decode(HEAD) == [(b":status", b"200"), (b"content-type", PLAIN)]
    assert HpackDecoder(999).decode(http_head(415))[0] == (b":status", b"415")
