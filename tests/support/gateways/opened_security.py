"""A Security over a store in memory, with cheap hashes, for tests of what asks it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from entrepot.domain.access.model import Origin, Principal
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.security.changes import By, UserChange
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings import SecuritySettings
from tests.support.cheap_hashes import CHEAP_HASHES
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore

ROOT = Principal("root", Origin.PASSWORD, "192.0.2.7")
BY_ROOT = By.principal(ROOT)


@asynccontextmanager
async def opened_security() -> AsyncIterator[Security]:
    """Open one with a super user `root` and a user `bob` without a password."""
    clock = ManualClock()
    store = MemoryStore(clock)
    security = Security(store.key_values, SecuritySettings(**CHEAP_HASHES), clock)
    try:
        await security.start()
        await security.administration.put_user(BY_ROOT, "root", UserChange(is_super=True))
        await security.administration.put_user(BY_ROOT, "bob", UserChange())
        yield security
    finally:
        security.close()
        await store.close()


def asked_by_root(**names: str) -> Asked:
    """A request by `root`, with names of the path."""
    return Asked(names, {}, ROOT)
