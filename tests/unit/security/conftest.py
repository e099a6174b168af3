"""A Security over a store in memory, with a clock that stands still, and cheap hashes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from entrepot.gateway.security.changes import By, UserChange
from entrepot.gateway.security.credentials import Credentials
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings import SecuritySettings
from tests.support.cheap_hashes import CHEAP_HASHES
from tests.support.stores.model_store import MemoryStore

CHEAP = {**CHEAP_HASHES}
ME = By("me", "127.0.0.1")


class StandingClock:
    def __init__(self) -> None:
        self.at_ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.at_ms


Opened = Callable[..., Awaitable[Security]]


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
async def store(clock: StandingClock) -> AsyncIterator[MemoryStore]:
    memory = MemoryStore(clock)
    yield memory
    await memory.close()


@pytest.fixture
async def opened(store: MemoryStore, clock: StandingClock) -> AsyncIterator[Opened]:
    """Opens one more Security over the store, with settings."""
    running: list[Security] = []

    async def open_one(**settings: Any) -> Security:
        security = Security(store.key_values, SecuritySettings(**{**CHEAP, **settings}), clock)
        running.append(security)
        await security.start()
        return security

    yield open_one
    for security in running:
        security.close()


@pytest.fixture
async def security(opened: Opened) -> Security:
    """One with a super user `root` and a user `bob`, whose passwords are their names."""
    made = await opened()
    await made.administration.put_user(ME, "root", UserChange("root", is_super=True))
    await made.administration.put_user(ME, "bob", UserChange("bob"))
    return made


def shown(name: str | None = None, password: str | None = None, **more: Any) -> Credentials:
    """Credentials from another machine, unless said."""
    raw = None if password is None else password.encode()
    return Credentials(**{"protocol": "mqtt", "source": "10.0.0.9", "username": name, "password": raw, **more})
