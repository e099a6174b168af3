"""Key-values at a small etcd in this process: one member, or two with one state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest

from entrepot.domain.key_value import KeyValueEvent
from entrepot.store_client.etcd import EtcdKeyValues, EtcdSettings, open_etcd
from tests.support.etcd.server import EtcdServer, EtcdState

ROOT: Final = "entrepot/test/"
QUICK: Final = {"request_seconds": 10.0, "patience_seconds": 10.0, "probe_seconds": 0.05}
Open = Callable[..., Awaitable[EtcdKeyValues]]


@pytest.fixture
async def state() -> EtcdState:
    return EtcdState()


@pytest.fixture
async def server(state: EtcdState) -> AsyncIterator[EtcdServer]:
    made = EtcdServer(state)
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def second(state: EtcdState) -> AsyncIterator[EtcdServer]:
    made = EtcdServer(state)
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def opened(server: EtcdServer) -> AsyncIterator[Open]:
    """Opens key-values at given members, else at the first; they are closed at the end."""
    made: list[EtcdKeyValues] = []

    async def start(*servers: EtcdServer, **others: Any) -> EtcdKeyValues:
        addresses = tuple(each.address for each in servers or (server,))
        made.append(await open_etcd(EtcdSettings(**{"addresses": addresses, "root": ROOT} | QUICK | others)))
        for each in servers or (server,):
            each.asked.clear()
            each.questions.clear()
        return made[-1]

    yield start
    for each in made:
        await each.close()


@pytest.fixture
async def key_values(opened: Open) -> EtcdKeyValues:
    return await opened()


@pytest.fixture
def store(key_values: EtcdKeyValues) -> SimpleNamespace:
    """A store of key-values alone, as tests of the contract ask for it."""
    return SimpleNamespace(key_values=key_values)


class Seen:
    """A watcher of a prefix."""

    def __init__(self, key_values: EtcdKeyValues, prefix: str = "") -> None:
        self.calls: list[list[KeyValueEvent]] = []
        self.beginnings = 0
        self.stop = key_values.watch(prefix, self.calls.append, self._begun)

    def _begun(self) -> None:
        self.beginnings += 1

    @property
    def values(self) -> list[bytes | None]:
        return [event.value for events in self.calls for event in events]
