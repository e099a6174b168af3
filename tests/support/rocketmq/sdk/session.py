"""Session: one client of the cluster in RocketMQ's sense: the producer, or the consumer of one group.

A server only answers consumers whose Settings it has.  So each session keeps a Telemetry stream open to every place it
talks to, sends its Settings at the start and at each change, and sends heartbeats.  A broken stream is opened again for
as long as the session lives.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final, TypeVar

import grpc

from entrepot.domain.background import background
from entrepot.domain.errors import EntrepotError
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import refusal_of
from tests.support.rocketmq.sdk.calls import (
    HEARTBEAT,
    TERMINATION,
    Answer,
    Call,
    Connection,
    Metadata,
    TelemetryStream,
    Wire,
)

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS: Final = 0.2
LAST_PAUSE_SECONDS: Final = 10.0

Q = TypeVar("Q", bound=Wire)
A = TypeVar("A", bound=Answer)
OnCommand = Callable[[v2.TelemetryCommand, Connection], None]


class Session:
    """One client.  `settings()`: its present Settings; `headers()`: those of one call; `on_command`: called with other
    commands of servers on Telemetry."""

    def __init__(
        self,
        client_type: v2.ClientType.ValueType,
        group: v2.Resource | None,
        settings: Callable[[], v2.Settings],
        headers: Callable[[], Metadata],
        on_command: OnCommand,
        *,
        timeout_seconds: float,
        heartbeat_seconds: float,
    ) -> None:
        self.client_type = client_type
        self.group = group
        self.settings = settings
        self.headers = headers
        self.on_command = on_command
        self.timeout_seconds = timeout_seconds
        self.heartbeat_seconds = heartbeat_seconds
        self._links: dict[str, _Link] = {}

    async def call(self, connection: Connection, call: Call[Q, A], question: Q, seconds: float | None = None) -> A:
        """Make a call where the session is known.  Raises the call's refusal."""
        await self._link(connection).ready()
        return await connection.call(call, question, seconds or self.timeout_seconds, self.headers())

    async def stream(self, connection: Connection, call: Call[Q, A], question: Q, seconds: float) -> AsyncIterator[A]:
        """Make a call that answers with a stream, as `call`."""
        await self._link(connection).ready()
        async for answer in connection.stream(call, question, seconds, self.headers()):
            yield answer

    def _link(self, connection: Connection) -> _Link:
        link = self._links.get(connection.target)
        if link is None:
            link = self._links[connection.target] = _Link(self, connection)
        return link

    async def say_settings(self) -> None:
        """Send changed settings everywhere, and wait until they are known there, or may be."""
        await asyncio.gather(*(link.say_settings() for link in self._links.values()))

    async def close(self) -> None:
        """Close the session at all places."""
        links, self._links = list(self._links.values()), {}
        await asyncio.gather(*(link.close() for link in links))


class _Link:
    """A session at one place."""

    def __init__(self, session: Session, connection: Connection) -> None:
        self._session = session
        self._connection = connection
        self._known = asyncio.Event()
        self._stream: TelemetryStream | None = None
        register = background()
        self._tasks = [
            register.keep("telemetry to the RocketMQ cluster", self._telemetry),
            register.keep("heartbeats to the RocketMQ cluster", self._heartbeats),
        ]

    async def ready(self) -> None:
        """Wait for the server's answer to our Settings, at most for a call's time: it may not need them."""
        if not self._known.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._session.timeout_seconds):
                    await self._known.wait()

    async def say_settings(self) -> None:
        if self._stream is None:
            return  # they are sent when it opens
        self._known.clear()
        with suppress(grpc.RpcError, asyncio.InvalidStateError):
            await self._stream.write(v2.TelemetryCommand(settings=self._session.settings()))
            await self.ready()

    async def _telemetry(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                stream = self._connection.telemetry(self._session.headers())
                await stream.write(v2.TelemetryCommand(settings=self._session.settings()))
                self._stream = stream
                async for command in stream:
                    pause = FIRST_PAUSE_SECONDS
                    self._take(command)
            except (grpc.RpcError, asyncio.InvalidStateError) as error:
                log.debug("telemetry to %s ended: %s", self._connection.target, error)
            self._stream = None
            self._known.set()  # nobody waits for a silent server: the calls find out
            await asyncio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_SECONDS)

    def _take(self, command: v2.TelemetryCommand) -> None:
        if command.WhichOneof("command") == "settings":
            refusal = refusal_of(command.status) if command.HasField("status") else None
            if refusal is not None:
                log.warning("%s refuses our settings: %s", self._connection.target, refusal.message)
            self._known.set()
            return
        self._session.on_command(command, self._connection)

    async def _heartbeats(self) -> None:
        session = self._session
        beat = v2.HeartbeatRequest(client_type=session.client_type, group=session.group)
        while True:
            await self.ready()
            try:
                await self._connection.call(HEARTBEAT, beat, session.timeout_seconds, session.headers())
            except EntrepotError as refusal:
                log.debug("heartbeat failed: %s", refusal.message)
            await asyncio.sleep(session.heartbeat_seconds)

    async def close(self) -> None:
        session = self._session
        with suppress(EntrepotError):
            goodbye = v2.NotifyClientTerminationRequest(group=session.group)
            await self._connection.call(TERMINATION, goodbye, session.timeout_seconds, session.headers())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
