"""Clients of events as they come: of server-sent events, and of a consumer's WebSocket."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import httpx2
from websockets.sync.client import connect
from websockets.sync.connection import Connection
from websockets.typing import Subprotocol

from tests.support.http.server import HttpServer
from tests.support.waiting import PATIENCE_SECONDS


class Source:
    """A stream read as a browser's EventSource does, without its connecting again."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.last_id = ""

    def next(self) -> dict:
        """The next event."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                self.last_id = fields["id"]
                return {"name": fields.get("event"), **json.loads(fields["data"])}
            else:
                self.last_id = fields.get("id", self.last_id)
                fields = {}
        raise AssertionError("the stream has ended")

    def take(self, count: int) -> list[str]:
        return [self.next()["id"] for _ in range(count)]


@contextmanager
def source(client: httpx2.Client, topic: str, headers: dict | None = None, **query: str) -> Iterator[Source]:
    with client.stream("GET", f"/topics/{topic}/events", params=query, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Source(answer.iter_lines())


@contextmanager
def consumer(
    server: HttpServer,
    topic: str,
    group: str = "g",
    *,
    below: str = "",
    headers: dict[str, str] | None = None,
    **query: object,
) -> Iterator[Consumer]:
    asked = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
    path = f"{below}/topics/{topic}/eventsubscriptions/{group}:stream?{asked}"
    with consumer_at(f"127.0.0.1:{server.port}", path, headers) as made:
        yield made


@contextmanager
def consumer_at(address: str, path: str, headers: dict[str, str] | None = None) -> Iterator[Consumer]:
    """A consumer at the HTTP door of this address."""
    protocols = [Subprotocol("cloudevents.json")]
    with connect(
        f"ws://{address}{path}", subprotocols=protocols, additional_headers=headers, compression=None, proxy=None
    ) as connection:
        yield Consumer(connection)


class Consumer:
    """A client that speaks the sub-protocol."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def next(self, timeout: float = PATIENCE_SECONDS) -> dict:
        return json.loads(self.connection.recv(timeout=timeout))

    def say(self, verb: str, **data: object) -> str:
        control = uuid.uuid4().hex
        said = {"specversion": "1.0", "id": control, "source": "/me", "type": f"dev.entrepot.{verb}", "data": data}
        self.connection.send(json.dumps(said))
        return control

    def settle(self, verb: str, *events: dict, **more: object) -> dict:
        control = self.say(verb, lockTokens=[one["locktoken"] for one in events], **more)
        answer = self.next()
        assert (answer["type"], answer["subject"]) == ("dev.entrepot.settled", control), answer
        return answer["data"]
