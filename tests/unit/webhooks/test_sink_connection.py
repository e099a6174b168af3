"""However the bytes of an answer are cut by the network, it is read alike, and none of them reaches the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from entrepot.gateway.events.webhooks.sink_connection import MAX_HEAD, LongHeadError, SinkConnection
from tests.support.cases import cases
from tests.support.waiting import PATIENCE_SECONDS

NO_BODY = b"HTTP/1.1 204 No Content\r\n"
SAME = b"HTTP/1.1 304 Not Modified\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n"
OTHER = b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"
"""An answer that nobody asked for."""


class Wire(asyncio.Transport):
    """The connection to the sink."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def connected() -> tuple[SinkConnection, Wire]:
    """A connection that has asked for something."""
    connection, wire = SinkConnection(asyncio.get_running_loop()), Wire()
    connection.connection_made(wire)
    connection.set_response_params()
    return connection, wire


async def answered(connection: SinkConnection) -> int:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            message, _ = await connection.read()
            if message.code >= 200:
                return int(message.code)


def cuts(data: bytes) -> Iterator[list[bytes]]:
    """Whole, at each place, and byte by byte."""
    yield [data]
    for at in range(1, len(data)):
        yield [data[:at], data[at:]]
    yield [data[at : at + 1] for at in range(len(data))]


@cases(
    "data, status, may_go_on",
    [
        (NO_BODY + b"\r\n", 204, True),
        (NO_BODY + b"content-length: 0\r\n\r\n", 204, True),
        (NO_BODY + b"Content-Length:  000\r\n\r\n", 204, True),
        (NO_BODY + b"content-length: 4\r\n\r\n", 204, False),
        (NO_BODY + b"CONTENT-LENGTH:\t004\r\n\r\n", 204, False),
        (NO_BODY + b"transfer-encoding: chunked\r\n\r\n", 204, False),
        (SAME + b"content-length: 4\r\n\r\n", 304, True),
        (CONTINUE + NO_BODY + b"\r\n", 204, True),
        (CONTINUE + HINTS + NO_BODY + b"\r\n", 204, True),
        (HINTS + SAME + b"\r\n", 304, True),
        (CONTINUE + HINTS + OTHER, 500, True),
        (OTHER, 500, True),
    ],
)
async def test_an_answer_is_read_alike_however_it_is_cut(data: bytes, status: int, may_go_on: bool) -> None:
    for parts in cuts(data):
        connection, _ = connected()
        for part in parts:
            connection.data_received(part)
        assert await answered(connection) == status, parts
        assert connection.should_close is not may_go_on, parts
        if not may_go_on:
            continue
        connection.set_response_params()
        connection.data_received(b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n")
        assert await answered(connection) == 201, parts


@cases("head", [NO_BODY + b"\r\n", SAME + b"\r\n", CONTINUE + NO_BODY + b"\r\n", HINTS + SAME + b"etag: x\r\n\r\n"])
@cases("body", [b"b", b"{}\r\n\r\n", OTHER])
async def test_a_forbidden_body_is_dropped_with_the_connection(head: bytes, body: bytes) -> None:
    for parts in [*cuts(head + body), [head, body]]:
        connection, _ = connected()
        for part in parts:
            connection.data_received(part)
        assert await answered(connection) in (204, 304), parts
        assert connection.should_close, parts


@cases(
    "answer",
    [
        NO_BODY + b"\r\n",
        SAME + b"\r\n",
        OTHER,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    ],
)
@cases("late", [b"b", OTHER, b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n"])
async def test_what_comes_between_two_requests_ends_the_connection(answer: bytes, late: bytes) -> None:
    connection, wire = connected()
    connection.data_received(answer)
    assert await answered(connection) in (200, 204, 304, 500)
    assert not connection.should_close and not wire.is_closed
    connection.data_received(late)
    assert wire.is_closed and not connection.is_connected()


async def test_a_body_in_many_parts_is_read_to_its_end() -> None:
    connection, wire = connected()
    connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n")
    _, body = await connection.read()
    for part in (b"a", b"b", b"c"):
        assert not body.is_eof()
        connection.data_received(part)
    assert await body.read() == b"abc" and not wire.is_closed


async def test_a_long_head_ends_the_connection_and_no_more_of_it_is_kept() -> None:
    for line in (b"x: " + b"v" * 1000 + b"\r\n", b"v" * 1000):
        for first in (NO_BODY, b"HTTP/1.1 200 OK\r\n"):
            connection, wire = connected()
            connection.data_received(first + b"y: ")
            sent = len(first) + 3
            while not wire.is_closed:
                assert sent <= MAX_HEAD, "it is too long by now"
                connection.data_received(line)
                sent += len(line)
            assert sent > MAX_HEAD
            with pytest.raises(LongHeadError):
                await connection.read()


async def test_a_head_up_to_the_limit_is_taken_and_the_next_one_has_all_of_it_again() -> None:
    connection, wire = connected()
    for _ in range(3):
        begin, end = b"HTTP/1.1 200 OK\r\nx: ", b"\r\ncontent-length: 0\r\n\r\n"
        connection.set_response_params()
        connection.data_received(begin + b"v" * (MAX_HEAD - len(begin + end)) + end)
        assert await answered(connection) == 200
    assert not wire.is_closed
