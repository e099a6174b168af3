"""Orphans of deleted subscriptions are deleted at the second look, each by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import SUBSCRIPTION_FEED_PREFIX
from entrepot.domain.topic import Topic
from entrepot.gateway.events.webhooks.orphans import Orphans
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced

GONE, STAYS = f"{SUBSCRIPTION_FEED_PREFIX}gone", f"{SUBSCRIPTION_FEED_PREFIX}stays"
NO_SUBSCRIPTIONS = SimpleNamespace(dispatched=list, get=lambda namespace, name: None)


@pytest.mark.parametrize(("code", "is_told"), [(Code.UNAVAILABLE, True), (Code.TOPIC_NOT_FOUND, False)])
async def test_one_that_cannot_be_deleted_keeps_no_other_and_is_told_unless_it_is_gone(
    code: Code, is_told: bool
) -> None:
    store = MemoryStore(ManualClock())
    own = store.topology
    for name in (GONE, STAYS):
        await own.put_topic(Topic(name, 1))

    async def deleted(name: str) -> None:
        if name == GONE:
            raise EntrepotError(code, "not now")
        await own.delete_topic(name)

    store.topology = replaced(own, delete_topic=deleted)
    orphans = Orphans(store, cast("Any", NO_SUBSCRIPTIONS))
    assert await orphans.sweep() == 0, "it may have been made just now"
    assert own.topic(STAYS) is not None
    with capture_logs() as told:
        assert await orphans.sweep() == 2
    assert own.topic(STAYS) is None
    warned = [entry["name"] for entry in told if entry["log_level"] == "warning"]
    assert warned == ([GONE] if is_told else [])
