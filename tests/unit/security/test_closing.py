"""The end of a gateway's security: it refuses all from then on, whatever fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from entrepot.gateway.security.security import Security
from entrepot.gateway.settings import Settings
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced


async def test_security_is_closed_though_a_watch_cannot_be_ended() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)

    def watch(*given: Any) -> Callable[[], None]:
        store.key_values.watch(*given)

        def stop() -> None:
            raise RuntimeError("the link is gone")

        return stop

    security = Security(replaced(store.key_values, watch=watch), Settings().security, clock)
    await security.start()
    assert security.is_open
    with pytest.raises(RuntimeError):
        security.close()
    assert not security.is_open
