"""What is retained is there after the server was killed, and what was deleted stays deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2

from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.retained import RetainedLimits
from entrepot.gateway.clock import SystemClock
from entrepot.gateway.retained.retained import RetainedMessages
from entrepot.store_client.embedded import open_embedded
from tests.e2e.http.steps import get
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS


async def keep(data_dir: Path, *messages: Message) -> None:
    """Have messages kept in a store that no server has open."""
    clock = SystemClock()
    store = await open_embedded(BrokerSettings(data_dir), clock)
    retained = RetainedMessages(store, clock, RetainedLimits())
    await retained.start()
    outcome: asyncio.Future[EntrepotError | None] = asyncio.get_running_loop().create_future()
    retained.keep(messages, outcome.set_result)
    assert await outcome is None
    await retained.close()
    await store.close()


def names(client: httpx2.Client) -> list[str]:
    return [one["name"] for one in get(client, "/api/v1/retained", limit=1000)["value"]]


def test_a_killed_server_has_what_was_retained(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, {"mqtt.max_retained_messages": "10"})
    odd = "odd/\x01"
    asyncio.run(
        keep(server.data_dir, *(Message("t", f"{n}".encode(), f"t/{n}") for n in range(9)), Message("t", b"odd", odd))
    )
    with server:
        with httpx2.Client(
            base_url=f"http://{server.ports['http']}", timeout=PATIENCE_SECONDS, trust_env=False
        ) as client:
            assert names(client) == [odd, *(f"t/{n}" for n in range(9))]
            assert client.get("/api/v1/retained/t%2F7").content == b"7"
            assert client.delete("/api/v1/retained/t%2F7").status_code == 204
        server.kill()
        server.restart()
        with httpx2.Client(
            base_url=f"http://{server.ports['http']}", timeout=PATIENCE_SECONDS, trust_env=False
        ) as client:
            assert names(client) == [odd, *(f"t/{n}" for n in range(9) if n != 7)]
            assert client.get("/api/v1/retained/odd%2F%01").content == b"odd"
        assert server.stop() == 0
