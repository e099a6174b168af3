"""A connection whose client says nothing more: the server's goodbye needs no answer, whatever the heartbeat."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from entrepot.gateway.amqp.connections.client import ClientInfo
from entrepot.gateway.amqp.connections.conversation import AmqpConversation
from entrepot.gateway.transport.deadlines import TICK_SECONDS, DeadlineWheel
from entrepot.gateway.transport.driver import Driver, ListenerTerms
from entrepot.gateway.transport.early_bytes import EarlyBytes
from entrepot.gateway.transport.intake import Intake, IntakeLimits
from entrepot.gateway.work.background_tasks import BackgroundTasks
from entrepot.protocols.amqp.methods_connection import ConnectionTuneOk
from entrepot.protocols.amqp.reply_codes import ReplyCode
from tests.support.amqp.machine import HELLO, LIMITS, OPEN, START_OK, Machine, said
from tests.support.cases import cases
from tests.support.virtual_time import run_virtually

LATEST_SECONDS = LIMITS.closing_timeout_seconds + 3 * TICK_SECONDS


class Socket(asyncio.Transport):
    """A peer that reads, and never writes."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 4000)})
        self.written = b""
        self.closed_at: float | None = None

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed_at is not None

    def close(self) -> None:
        self.closed_at = asyncio.get_running_loop().time()


async def _seconds_to_the_end(heartbeat: int) -> float:
    """The time from the server's goodbye to the end of the socket."""
    loop = asyncio.get_running_loop()
    machine = Machine(now=loop.time())
    machine.feed(HELLO + START_OK + said(0, ConnectionTuneOk(0, 0, heartbeat)) + OPEN, loop.time())
    services: Any = SimpleNamespace(virtual_hosts=SimpleNamespace(tasks=BackgroundTasks("a test")))
    connections: Any = SimpleNamespace(opened=lambda conversation: None)
    conversation = AmqpConversation(services, ClientInfo("here"), machine.connection, connections)
    wheel, intake = DeadlineWheel(loop), Intake("test", IntakeLimits(), loop.time())
    terms = ListenerTerms("test", lambda: conversation, loop, wheel, intake, 1 << 16, EarlyBytes(1 << 20))
    socket = Socket()
    Driver(terms, conversation).connection_made(socket)
    await asyncio.sleep(1)
    began = loop.time()
    conversation.close_connection(ReplyCode.CONNECTION_FORCED, "an operator closed the connection")
    assert b"an operator closed the connection" in socket.written
    while socket.closed_at is None:
        await asyncio.sleep(TICK_SECONDS)
    wheel.close()
    return socket.closed_at - began


@cases("heartbeat", [0, 60, 600])
def test_it_is_cut_when_it_does_not_answer_the_servers_goodbye(heartbeat: int) -> None:
    seconds = run_virtually(_seconds_to_the_end(heartbeat))
    assert LIMITS.closing_timeout_seconds <= seconds <= LATEST_SECONDS
