"""The client of sinks asks for what it was given, and takes what people's servers answer."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from entrepot.gateway.events.webhooks.sink_answer import Answer
from entrepot.gateway.events.webhooks.sink_client import SinkClient
from entrepot.gateway.events.webhooks.sink_connection import MAX_HEAD
from entrepot.gateway.settings import WebhookSettings
from tests.support.cases import cases
from tests.support.waiting import PATIENCE_SECONDS, until

MAX_BODY = 1000
SETTINGS = WebhookSettings(allow_http=True, allowed_networks=["127.0.0.0/8"], max_response_bytes=MAX_BODY)
OK = b"HTTP/1.1 200 OK\r\n"
EMPTY = b"content-length: 0\r\n\r\n"


class Sink:
    """A server that sends the same bytes to every request, and closes if it is to."""

    def __init__(self, *parts: bytes, closes: bool = False) -> None:
        self._parts, self._closes = parts, closes
        self.heads: list[bytes] = []
        self.connections = self.ended = 0
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                for part in self._parts:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)
                if self._closes:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()
            self.ended += 1


@asynccontextmanager
async def serving(sink: Sink) -> AsyncIterator[SinkClient]:
    server = await asyncio.start_server(sink.answer, "127.0.0.1", 0)
    sink.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = SinkClient(SETTINGS)
    try:
        yield client
    finally:
        await client.close()
        server.close()
        await until(lambda: sink.ended == sink.connections, "the end of its connections")


async def asked(client: SinkClient, url: str) -> Answer:
    return await client.request("POST", url, {}, None, PATIENCE_SECONDS)


# -- the request -----------------------------------------------------------------------------------------------------


@cases(
    "given, requested",
    [
        ("/a%2Fb/%40c?sp=%2Ftriggers%2Frun&sig=a-_%7E", None),
        ("/a/../b/./c", None),
        ("/hook?names=a%2Cb,c&next=https%3A%2F%2Fa.example%2F%3Fb%3D1", None),
        ("/path%28a%29/x%3Ay?mail=a%40b+c%20d", None),
        ("/lower%2fcase%C3%BC?", None),
        ("//twice//", None),
        ("/odd\"<>`{}|\\^[]'%zz?a?b", None),
        ("", "/"),
        ("?a=1", "/?a=1"),
        ("/h\u00f6ren?\u00fc", "/h%C3%B6ren?%C3%BC"),
    ],
)
async def test_a_url_is_requested_as_it_was_given(given: str, requested: str | None) -> None:
    sink = Sink(OK + EMPTY)
    async with serving(sink) as client:
        answer = await asked(client, sink.url + given)
        assert answer.status == 200, answer
    [head] = sink.heads
    assert head.split(b"\r\n")[0].decode() == f"POST {requested or given} HTTP/1.1"
    assert f"host: {sink.url[7:]}".encode() in head.lower()


# -- the answer ------------------------------------------------------------------------------------------------------


@cases(
    "parts, status",
    [
        ((OK + b"x-long: " + b"v" * 100_000 + b"\r\n" + EMPTY,), 200),
        ((OK + b"".join(b"x-%d: %s\r\n" % (n, b"v" * 200) for n in range(1000)) + EMPTY,), 200),
        ((b"HTTP/1.1 200 " + b"r" * 20_000 + b"\r\n" + EMPTY,), 200),
        ((b"HTTP/1.1 204 No Content\r\nx-long: " + b"v" * 200_000, b"\r\n\r\nbody"), 204),
        ((b"HTTP/1.1 100 Continue\r\n\r\n" + OK + EMPTY,), 200),
        ((b"HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\n", OK + EMPTY), 200),
        ((b"HTTP/1.1 202\r\n" + EMPTY,), 202),
        ((b"HTTP/1.1 202 \r\n" + EMPTY,), 202),
        ((b"HTTP/1.0 200 OK\r\n" + EMPTY,), 200),
        ((OK + b"CONTENT-LENGTH:2\r\n\r\nhi",), 200),
        ((OK + b"transfer-encoding: chunked\r\ntrailer: x\r\n\r\n2;a=b\r\nhi\r\n0\r\nx: y\r\n\r\n",), 200),
        ((OK + b"x: \xff\xfe\r\nretry-after: \xe4\r\nset-cookie: \xf6=;;\r\nserver: gr\xc3\xbcn\r\n" + EMPTY,), 200),
        ((OK + b"set-cookie: a=b\r\nset-cookie: c=d\r\nlocation: http://[\r\nlink: <\r\n" + EMPTY,), 200),
        ((OK + b"x: folded\r\n  further\r\n" + EMPTY,), 200),
        ((b"HTTP/1.1 200 OK\nx: y\ncontent-length: 0\n\n",), 200),
        ((b"HTTP/1.1 599 \xe4\r\n" + EMPTY,), 599),
    ],
)
async def test_odd_answers_are_taken_and_the_next_one_is_too(parts: tuple[bytes, ...], status: int) -> None:
    sink = Sink(*parts)
    async with serving(sink) as client:
        for _ in range(2):
            answer = await asked(client, sink.url)
            assert (answer.status, answer.fault) == (status, "")
    assert len(sink.heads) == 2


@cases(
    "parts",
    [
        (OK + b"connection: close\r\n\r\nhi",),
        (OK + b"connection: close\r\n\r\n", b"hi"),
        (OK + b"\r\nhi",),
        (b"HTTP/1.0 200 OK\r\n\r\nhi",),
    ],
)
async def test_an_answer_may_end_with_its_connection(parts: tuple[bytes, ...]) -> None:
    sink = Sink(*parts, closes=True)
    async with serving(sink) as client:
        for _ in range(2):
            answer = await asked(client, sink.url)
            assert (answer.status, answer.body, answer.fault) == (200, b"hi", "")
    assert sink.connections == 2


@cases("length", [MAX_BODY - 1, MAX_BODY, MAX_BODY + 1, 1_000_000])
async def test_of_a_longer_body_the_beginning_is_read(length: int) -> None:
    sink = Sink(OK + f"content-length: {length}\r\n\r\n".encode() + b"b" * length)
    async with serving(sink) as client:
        for _ in range(2):
            answer = await asked(client, sink.url)
            assert (answer.status, answer.fault) == (200, "")
            assert answer.body == b"b" * min(length, MAX_BODY)
    assert sink.connections == (1 if length <= MAX_BODY + 1 else 2), "one byte more is read, to see that there is one"


@cases(
    "coding, content, body",
    [
        ("gzip", gzip.compress(b"hello"), b"hello"),
        ("GZip ", gzip.compress(b"hello"), b"hello"),
        ("x-gzip", gzip.compress(b"hello"), b"hello"),
        ("deflate", zlib.compress(b"hello"), b"hello"),
        ("gzip", gzip.compress(b"z" * 10_000_000)[:MAX_BODY], b"z" * MAX_BODY),
        ("gzip", b"no gzip", b"no gzip"),
        ("gzip", b"", b""),
        ("identity", b"hello", b"hello"),
        ("br", b"\x0b\x02\x80hello\x03", b"\x0b\x02\x80hello\x03"),
    ],
    ids=["gzip", "case", "x-gzip", "deflate", "bomb", "not so", "empty", "identity", "another"],
)
async def test_an_encoded_body_is_decoded_up_to_the_limit(coding: str, content: bytes, body: bytes) -> None:
    sink = Sink(OK + f"content-encoding: {coding}\r\ncontent-length: {len(content)}\r\n\r\n".encode() + content)
    async with serving(sink) as client:
        answer = await asked(client, sink.url)
        assert (answer.status, answer.body) == (200, body)
    assert b"accept-encoding: gzip, deflate\r\n" in sink.heads[0].lower()


@cases(
    "parts",
    [
        (OK + b"x: " + b"v" * 2 * MAX_HEAD,),
        (OK, *[b"x: " + b"v" * 1000 + b"\r\n"] * (2 * MAX_HEAD // 1000)),
        (b"HTTP/1.1 204 No Content\r\n", *[b"x: " + b"v" * 1000 + b"\r\n"] * (2 * MAX_HEAD // 1000)),
        (b"HTTP/1.1 103 Early Hints\r\nx: " + b"v" * 1000 + b"\r\n\r\n",) * (2 * MAX_HEAD // 1000),
    ],
)
async def test_a_head_beyond_the_limit_is_no_answer(parts: tuple[bytes, ...]) -> None:
    sink = Sink(*parts)
    async with serving(sink) as client:
        answer = await asked(client, sink.url)
    assert (answer.status, answer.fault) == (0, "the head of its answer is longer than 256 KiB")


async def test_the_rest_of_a_long_answer_is_not_taken_for_its_head() -> None:
    body = b"c" * 2 * MAX_HEAD
    sink = Sink(OK + b"transfer-encoding: chunked\r\n\r\n", b"%x\r\n" % len(body) + body, b"\r\n0\r\n\r\n")
    settings = WebhookSettings(allow_http=True, allowed_networks=["127.0.0.0/8"], max_response_bytes=4 * MAX_HEAD)
    async with serving(sink):
        client = SinkClient(settings)
        answer = await asked(client, sink.url)
        await client.close()
    assert (answer.status, len(answer.body)) == (200, len(body))
