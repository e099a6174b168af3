"""Events out of the HTTP listener: pulled and acknowledged, delivered to a sink; and the cost of subscriptions."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from benchmarks.processes import BenchmarkError, Server, cpu_seconds

EVENTS_IN_BATCH: Final = 100
CONNECTIONS: Final = 4
WEBHOOK_FLAGS: Final = (
    *("--set", "webhooks.allow_http=true"),
    *("--set", 'webhooks.allowed_networks=["127.0.0.0/8"]'),
)
PULL_SECONDS: Final = 90.0
"""Time after which events that do not come are missing."""
SUBSCRIBING: Final = 16
"""Subscriptions that are made at one time."""


class Connection:
    """One kept connection: a request, its answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, server: Server) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", server.ports["http"], limit=1 << 24))

    async def ask(self, path: str, body: bytes, content_type: str = "application/json", method: str = "POST") -> bytes:
        """Return the answer's body. Raises BenchmarkError for a refusal."""
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content_type}\r\n"
        head += f"content-length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        content = await self._reader.readexactly(length) if length else b""
        if not answer.startswith(b"HTTP/1.1 2"):
            raise BenchmarkError(f"{method} {path}: {(answer + content)[:300]!r}")
        return content

    def close(self) -> None:
        self._writer.close()


def batch(first: int, subject: str = "line1/temp") -> bytes:
    """A batch of events in JSON."""
    events = [
        {
            "specversion": "1.0", "id": f"e{number}", "source": "/benchmark", "type": "reading", "subject": subject,
            "datacontenttype": "application/json", "data": {"temperature": 21.5, "note": "x" * 150},
        }
        for number in range(first, first + EVENTS_IN_BATCH)
    ]  # fmt: skip
    return json.dumps(events, separators=(",", ":")).encode()


async def publish_many(server: Server, count: int, topic: str = "bench") -> None:
    """Publish `count` events, rounded up to whole batches, over a few connections."""
    body = batch(0)
    left = -(-count // EVENTS_IN_BATCH)

    async def one() -> None:
        nonlocal left
        connection = await Connection.open(server)
        while left > 0:
            left -= 1
            await connection.ask(f"/topics/{topic}:publish", body, "application/cloudevents-batch+json")
        connection.close()

    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))


async def pulled(server: Server, count: int, topic: str = "bench", at_once: int = 100) -> tuple[float, float]:
    """Events per second, and per CPU-second of the server, of a topic without others, received and acknowledged."""
    await publish_many(server, count, topic)
    path = f"/topics/{topic}/eventsubscriptions/workers"
    done, ended = 0, 0.0

    async def one() -> None:
        nonlocal done, ended
        connection = await Connection.open(server)
        while done < count:
            if time.perf_counter() - begun > PULL_SECONDS:
                raise BenchmarkError(f"{done} of {count} events were received in {PULL_SECONDS:g} s")
            answer = await connection.ask(f"{path}:receive?maxEvents={at_once}&maxWaitTime=1", b"")
            tokens = _tokens(answer)
            if tokens:
                body = b'{"lockTokens":[' + b",".join(tokens) + b"]}"
                await connection.ask(f"{path}:acknowledge", body)
                done += len(tokens)
                ended = time.perf_counter()  # others still wait for more
        connection.close()

    cpu, begun = cpu_seconds(server.pid), time.perf_counter()
    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    spent = cpu_seconds(server.pid) - cpu
    return count / (ended - begun), count / max(spent, 0.01)


def _tokens(answer: bytes) -> list[bytes]:
    """The lock tokens, in quotes, cut out without a parser: the client is not to be measured."""
    parts = answer.split(b'"lockToken":')[1:]
    return [part[: part.index(b'"', 1) + 1] for part in parts]


class Sink:
    """A receiver in this process that counts events and answers 204."""

    def __init__(self) -> None:
        self.events = 0
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _SinkConnection(self), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        assert self._server is not None
        self._server.close()


class _SinkConnection(asyncio.Protocol):
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._data = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._data) < end + 4 + length:
                return
            body, self._data = self._data[end + 4 : end + 4 + length], self._data[end + 4 + length :]
            self._sink.events += body.count(b'"specversion"') or 1
            self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


async def delivered(server: Server, count: int, mode: str) -> tuple[float, float]:
    """Events per second, and per CPU-second of the server, from the first publish to the last delivery."""
    sink = Sink()
    await sink.start()
    connection = await Connection.open(server)
    await subscribe(connection, f"http://127.0.0.1:{sink.port}/", mode=mode)
    cpu, begun = cpu_seconds(server.pid), time.perf_counter()
    await publish_many(server, count)
    while sink.events < count:
        if time.perf_counter() - begun > 120:
            raise BenchmarkError(f"{sink.events} of {count} events were delivered")
        await asyncio.sleep(0.01)
    wall, spent = time.perf_counter() - begun, cpu_seconds(server.pid) - cpu
    connection.close()
    sink.close()
    return count / wall, count / max(spent, 0.01)


async def subscribe(connection: Connection, sink: str, filters: list[Any] | None = None, mode: str = "binary") -> None:
    body = {
        "source": "bench", "sink": sink, "protocol": "HTTP", "filters": filters or [],
        "config": {"mode": mode, "handshake": "off"},
    }  # fmt: skip
    await connection.ask("/subscriptions", json.dumps(body).encode())


async def subscribed(server: Server, already: int, wanted: int) -> None:
    """Make subscriptions without a match until there are `wanted`."""
    numbers = iter(range(already, wanted))

    async def one() -> None:
        connection = await Connection.open(server)
        for number in numbers:
            filters = [{"exact": {"type": "reading", "subject": f"line1/device{number}"}}]
            await subscribe(connection, "http://127.0.0.1:9/", filters)
        connection.close()

    await asyncio.gather(*(one() for _ in range(SUBSCRIBING)))


async def publish_cost(server: Server, seconds: float) -> tuple[float, float]:
    """Median milliseconds to an answer for a batch without a match, and events per CPU-second, with dispatch."""
    body = batch(0, "line1/nobody")
    connection = await Connection.open(server)
    await connection.ask("/topics/bench:publish", body, "application/cloudevents-batch+json")
    group = await dispatch_group(connection)
    times: list[float] = []
    cpu, end = cpu_seconds(server.pid), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        await connection.ask("/topics/bench:publish", body, "application/cloudevents-batch+json")
        times.append(time.perf_counter() - begun)
        await asyncio.sleep(0.005)  # a load that leaves the dispatcher time to keep up
    await until_dispatched(connection, group)
    spent = cpu_seconds(server.pid) - cpu
    connection.close()
    times.sort()
    return times[len(times) // 2] * 1000, len(times) * EVENTS_IN_BATCH / max(spent, 0.01)


async def dispatch_group(connection: Connection) -> str:
    """Return the name of the dispatch group."""
    groups = json.loads(await connection.ask("/api/v1/groups", b"", method="GET"))["value"]
    names: list[str] = [each["name"] for each in groups]
    return next(name for name in names if name.startswith("dispatch~"))


async def until_dispatched(connection: Connection, group: str) -> None:
    """Wait until the dispatch group has read everything."""

    async def is_done() -> bool:
        found = json.loads(await connection.ask(f"/api/v1/groups/{group}", b"", method="GET"))
        lags: list[int] = [each["lag"] for each in found["progress"]]
        return sum(lags) == 0

    await _wait(is_done)


async def _wait(condition: Callable[[], Awaitable[bool]]) -> None:
    end = time.perf_counter() + 60
    while not await condition():
        if time.perf_counter() > end:
            raise BenchmarkError("dispatch does not keep up")
        await asyncio.sleep(0.1)
