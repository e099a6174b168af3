"""Name servers that know another broker of this name or number: when that stops a broker, and when not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from entrepot.broker.server import registration
from entrepot.broker.server.registration import Registrar
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.route import BrokerInfo
from entrepot.gateway.clock import SystemClock
from tests.support.brokers.process_broker import start_broker, start_name_server
from tests.support.waiting import PATIENCE_SECONDS, until

IMPOSTOR = BrokerInfo("other-1", 1, "127.0.0.1:1", "another store", 5)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> list[EntrepotError]:
    """Those that were decided on."""
    found: list[EntrepotError] = []
    decide = Registrar._refused

    def decided(registrar: Registrar, error: EntrepotError) -> None:
        decide(registrar, error)
        found.append(error)

    monkeypatch.setattr(Registrar, "_refused", decided)
    monkeypatch.setattr(registration, "REFUSED_SECONDS", 0.3)
    return found


async def test_one_name_server_of_two_stops_nobody(
    tmp_path: Path, stack: AsyncExitStack, refusals: list[EntrepotError]
):
    good, port = await start_name_server(stack)
    _, other_port = await start_name_server(stack, IMPOSTOR)
    servers = [f"127.0.0.1:{each}" for each in (other_port, port)]
    broker = await start_broker(tmp_path, "broker-1", SystemClock(), stack, keeps=True, name_servers=servers)
    await until(lambda: refusals, "it is refused by one")
    assert [each.broker.name for each in good.table.routes().brokers] == ["broker-1"]
    assert not broker.process.stopped.done()


async def test_a_name_server_that_begins_anew_stops_nobody(
    tmp_path: Path, stack: AsyncExitStack, refusals: list[EntrepotError]
):
    good, port = await start_name_server(stack)
    servers = [f"127.0.0.1:{port}"]
    broker = await start_broker(tmp_path, "broker-1", SystemClock(), stack, keeps=True, name_servers=servers)
    await until(lambda: good.table.routes().brokers, "it is known")
    await good.close()
    await start_name_server(stack, IMPOSTOR, port=port)
    await until(lambda: refusals, "it is refused")
    assert not broker.process.stopped.done()


async def test_a_broker_that_all_refuse_from_the_start_stops(
    tmp_path: Path, stack: AsyncExitStack, refusals: list[EntrepotError]
):
    servers = [f"127.0.0.1:{(await start_name_server(stack, IMPOSTOR))[1]}" for _ in range(2)]
    broker = await start_broker(tmp_path, "broker-1", SystemClock(), stack, keeps=True, name_servers=servers)
    why = await asyncio.wait_for(asyncio.shield(broker.process.stopped), PATIENCE_SECONDS)
    assert why is not None and why.code == Code.PRECONDITION_FAILED
