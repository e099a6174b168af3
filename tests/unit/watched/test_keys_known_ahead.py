"""What a gateway knows of its own writes before the watch tells it, within a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from entrepot.domain.key_value import KeyValueChange, KeyValueEvent
from entrepot.gateway.key_values import watched_keys as module
from entrepot.gateway.key_values.watched_keys import WatchedKeys
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced


async def test_keys_known_ahead_of_the_watch_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_AHEAD", 3)
    store = MemoryStore(ManualClock())
    view: dict[str, bytes | None] = {}
    tell: list[Callable[[Sequence[KeyValueEvent]], None]] = []

    def watch(prefix: str, told: Callable[[Sequence[KeyValueEvent]], None], begun: object) -> Callable[[], None]:
        """It is late with everything."""
        tell.append(told)
        return lambda: None

    def take(events: Sequence[KeyValueEvent]) -> None:
        view.update({event.key: event.value for event in events})

    keys = WatchedKeys(replaced(store.key_values, watch=watch), "p/", take, lambda: list(view))
    await keys.start()
    versions = [await keys.write([KeyValueChange(f"p/{number}", b"new")]) for number in range(6)]
    assert view == {f"p/{number}": b"new" for number in range(6)}
    assert list(keys._ahead) == ["p/3", "p/4", "p/5"]
    tell[0]([KeyValueEvent("p/5", b"old", versions[0] - 1)])
    assert view["p/5"] == b"new", "a late event is older than the write"
    tell[0]([KeyValueEvent("p/5", b"newer", versions[-1] + 1)])
    assert view["p/5"] == b"newer"
    assert list(keys._ahead) == ["p/3", "p/4"]
    keys.close()
    await store.close()
