"""A peer ends TLS a tick before the owner of the connection hears of it: who closes in that tick goes on."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from entrepot.domain.closing import close_once
from entrepot.gateway.transport.deadlines import DeadlineWheel
from entrepot.gateway.transport.driver import Driver, ListenerTerms
from entrepot.gateway.transport.early_bytes import EarlyBytes
from entrepot.gateway.transport.intake import Intake, IntakeLimits
from tests.support.processes.certificates import TestAuthority
from tests.support.waiting import until
from tests.unit.transport.test_driver import Echo


class Owner(asyncio.Protocol):
    """The owner of a connection that does nothing with it."""

    transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport


@asynccontextmanager
async def left_by_its_peer(
    directory: Path, make: Callable[[], asyncio.Protocol], made: Callable[[], Any]
) -> AsyncIterator[asyncio.Transport]:
    """A server's end of a TLS connection in the tick in which it is lost, and nobody was told yet."""
    authority = TestAuthority(directory)
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(authority.issue("own"))
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0, ssl=shown)
    host, port = server.sockets[0].getsockname()
    _, writer = await asyncio.open_connection(host, port, ssl=authority.client_context(), server_hostname="localhost")
    await until(made, "it is connected")
    transport: asyncio.Transport = made()
    writer.transport.abort()
    while not transport.is_closing():
        await asyncio.sleep(0)
    yield transport
    server.close()


async def test_one_that_is_closing_is_not_closed_again(tmp_path: Path) -> None:
    owner = Owner()
    async with left_by_its_peer(tmp_path, lambda: owner, lambda: owner.transport) as transport:
        close_once(transport)
        close_once(transport)
        transport.write(b"too late")
        assert transport.get_extra_info("cipher") and not transport.get_write_buffer_size()


async def test_a_driver_may_be_closed_more_than_once(tmp_path: Path) -> None:
    loop, echo = asyncio.get_running_loop(), Echo()
    wheel = DeadlineWheel(loop)
    intake = Intake("test", IntakeLimits(), loop.time())
    terms = ListenerTerms("test", lambda: echo, loop, wheel, intake, 64 * 1024, EarlyBytes(1 << 30))
    made = lambda: echo.driver and echo.driver._transport  # noqa: E731
    async with left_by_its_peer(tmp_path, lambda: Driver(terms, terms.converse()), made):
        driver = echo.driver
        assert driver is not None and echo.ends == 0
        echo.due += b"goodbye"
        driver.close()
        driver.close()
        assert (driver.local, driver.unwritten, bytes(echo.due)) == ("", 0, b"")
        driver.delivered()
        while not echo.ends:
            await asyncio.sleep(0)
        assert (driver.local, driver.unwritten) == ("", 0)
    wheel.close()
