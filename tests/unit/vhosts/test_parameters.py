"""Runtime parameters: two gateways that write at once, what is remembered of topic permissions, and bounds."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.amqp.virtual_hosts.parameters import (
    MAX_GLOBAL_BYTES,
    MAX_TOPIC_PERMISSIONS,
    Parameters,
    TopicPatterns,
)
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore


async def two() -> tuple[Parameters, Parameters]:
    store = MemoryStore(ManualClock())
    found = Parameters(store.key_values), Parameters(store.key_values)
    for each in found:
        await each.start()
    return found


async def test_two_gateways_that_write_at_once_lose_nothing() -> None:
    one, other = await two()
    await asyncio.gather(
        one.limit_user("a/b", "max-channels", 1),
        other.limit_user("a/b", "max-connections", 2),
        one.permit("a/b", "default", TopicPatterns("default", "x", "^w", "^r")),
        other.describe("default", "d", ("t",)),
        one.limit_vhost("default", "max-queues", 3),
    )
    for each in (one, other):
        await each.limit_user("c", "max-channels", 1)  # and hears of what was written before
    assert one.user_limits("a/b") == {"max-channels": 1, "max-connections": 2}
    found = one.topic_permission("a/b", "default", "x")
    assert found is not None and found.may_write("w.x", "a/b", "/") and not found.may_read("w.x", "a/b", "/")
    assert (one.vhost("default").description, one.vhost("default").limits) == ("d", {"max-queues": 3})


async def test_a_virtual_host_that_goes_takes_its_permissions_along() -> None:
    one, _ = await two()
    heard: list[int] = []
    one.on_change.append(lambda: heard.append(1))
    for namespace in ("plant", "default"):
        await one.permit("u", namespace, TopicPatterns(namespace, "x", "", ""))
    await one.describe("plant", "d", ())
    await one.forget_vhost("plant")
    assert one.topic_permission("u", "plant", "x") is None and one.topic_permission("u", "default", "x") is not None
    assert one.vhost("plant").description == "" and len(heard) == 3
    await one.forget_user("u")
    assert one.topic_permission("u", "default", "x") is None and one.user_limits("u") == {}


async def test_bounds() -> None:
    one, _ = await two()
    with pytest.raises(EntrepotError) as refusal:
        await one.put_global("g", "x" * MAX_GLOBAL_BYTES)
    assert refusal.value.code is Code.BAD_REQUEST
    assert await one.put_global("g", None) and not await one.put_global("g", [1])
    assert one.global_values() == {"g": [1]}
    for number in range(MAX_TOPIC_PERMISSIONS):
        await one.permit("u", "default", TopicPatterns("default", f"x{number}", "", ""))
    with pytest.raises(EntrepotError):
        await one.permit("u", "default", TopicPatterns("default", "more", "", ""))
    assert not await one.permit("u", "default", TopicPatterns("default", "x1", "^a", ""))
