"""The doors of one gateway without sockets, over a real store: what a way of bytes goes through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from entrepot.domain.ports import Store
from entrepot.gateway.amqp.door import AmqpDoor
from entrepot.gateway.events.door import EventsDoor
from entrepot.gateway.http.door import HttpDoor
from entrepot.gateway.mqtt.door import MqttDoor
from entrepot.gateway.settings import Settings
from tests.support.amqp.door import AmqpClient
from tests.support.clock import ManualClock
from tests.support.gateways.parts import parts_of
from tests.support.mqtt.door import DoorClient
from tests.support.waiting import PATIENCE_SECONDS


class Site:
    """All doors of a gateway over one store."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        parts = self.parts = replace(parts_of(store, Settings(), clock), is_embedded=True)
        self.mqtt_door, self.amqp_door, self.events = MqttDoor(parts), AmqpDoor(parts), EventsDoor(parts)
        parts.doors.extend((self.mqtt_door, self.amqp_door, self.events))
        self.http = HttpDoor(parts)
        self.mqtt, self.frontend, self.sender = self.mqtt_door.frontend, self.amqp_door.frontend, parts.sender

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Site]:
        parts = self.parts
        await parts.security.start(1.0)
        await parts.retained.start()
        doors = (self.mqtt_door, self.amqp_door, self.events, self.http)
        for door in doors:
            await door.start()
        try:
            yield self
        finally:
            until = asyncio.get_running_loop().time() + PATIENCE_SECONDS
            for door in doors:
                await door.end_waiting(until)
            parts.store.consumption.release_waiting()
            for door in doors:
                door.say_goodbye()
            for door in doors:
                for work in door.last_work():
                    await work()
            await parts.retained.close()
            parts.security.close()


class RawMqttClient(DoorClient):
    """A client that keeps what it is told as bytes: its own decoding is not on the way."""

    out = b""
    is_raw = False

    def flush(self) -> None:
        if self.is_raw:
            self.out += self.conversation.data_to_send()
        else:
            super().flush()


class RawAmqpClient(AmqpClient):
    """The same for AMQP."""

    out = b""
    is_raw = False

    def flush(self) -> None:
        if self.is_raw:
            self.out += self.conversation.data_to_send()
        else:
            super().flush()


async def turns(done: Callable[[], object]) -> None:
    """Let the loop turn until it is done: nothing of ours is called between."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not done():
            await asyncio.sleep(0)


async def asked(app: Callable[..., Any], method: str, target: str, body: bytes = b"", kind: bytes = b"") -> bytes:
    """The body of an answer of the HTTP application."""
    path, _, query = target.partition("?")
    headers = [(b"host", b"localhost"), *([(b"content-type", kind)] if kind else [])]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "root_path": "",
    }
    told, parts = b"", [body]

    async def receive() -> MutableMapping[str, Any]:
        if not parts:  # the client stays, and says no more
            await asyncio.Event().wait()
        return {"type": "http.request", "body": parts.pop(), "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal told
        told += message.get("body", b"")

    await app(scope, receive, send)
    return told


def settings_of(directory: Path) -> Any:
    """A small store's."""
    from entrepot.broker.settings.store import BrokerSettings

    return BrokerSettings(directory)
