"""Definitions that a cluster does not keep: facts beside it, which every gateway has and which outlive them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from entrepot.domain.definitions.consumer_group import LATEST, UNLIMITED_ATTEMPTS, ConsumerGroup
from entrepot.domain.errors import Code
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.retry_policy import RetryKind, RetryPolicy
from entrepot.domain.topic import Topic
from entrepot.gateway.facts import StoreFacts
from entrepot.store_client.rocketmq import RocketMqStore
from entrepot.store_client.rocketmq.kept_definitions import GROUPS
from tests.contract_rocketmq.conftest import settings_of
from tests.support.clock import ManualClock
from tests.support.rocketmq.server import RocketMqServer
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.steps import refusal_of

FULL = ConsumerGroup(
    "g",
    max_attempts=3,
    invisible_seconds=77,
    start=LATEST,
    retry=RetryPolicy(RetryKind.LIST, delays_ms=(1_000, 5_000)),
    max_in_flight=9,
    fifo=True,
    filter=FilterExpression(FilterKind.TAG, "red"),
)
Gateways = tuple[RocketMqStore, RocketMqStore]


@pytest.fixture
async def kept(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
async def gateways(cluster: RocketMqServer, clock: ManualClock, kept: MemoryStore) -> AsyncIterator[Gateways]:
    """Two gateways that share facts."""
    opened = RocketMqStore(settings_of(cluster), clock, facts=StoreFacts(kept))
    other = RocketMqStore(settings_of(cluster), clock, facts=StoreFacts(kept))
    await opened.start()
    await other.start()
    yield opened, other
    for store in (opened, other):
        await store.close()


@pytest.fixture
def engine() -> str:
    return "model"


async def test_all_gateways_have_the_whole_definition_of_a_group(gateways: Gateways, cluster: RocketMqServer):
    one, two = gateways
    await one.topology.put_group(FULL)
    await two._catalog.look()
    assert two.topology.group("g") == FULL
    assert (await two.topology.group_status("g")).group == FULL
    await two.topology.put_group(ConsumerGroup("g", max_attempts=UNLIMITED_ATTEMPTS))
    await one._catalog.look()
    assert one.topology.group("g") == ConsumerGroup("g", max_attempts=UNLIMITED_ATTEMPTS)
    await cluster.put_group(ConsumerGroup("g", max_attempts=5))  # an operator of the cluster has the last word
    await one._catalog.look()
    group = one.topology.group("g")
    assert group is not None and group.max_attempts == 5


async def test_a_definition_outlives_the_gateways(
    gateways: Gateways, cluster: RocketMqServer, clock: ManualClock, kept: MemoryStore
):
    await gateways[0].topology.put_group(FULL)
    later = RocketMqStore(settings_of(cluster), clock, facts=StoreFacts(kept))
    await later.start()
    assert later.topology.group("g") == FULL
    await later.topology.delete_group("g")
    assert await kept.key_values.scan(GROUPS) == []
    await later.close()


async def test_one_that_cannot_be_read_harms_no_other(gateways: Gateways, kept: MemoryStore, cluster: RocketMqServer):
    one, two = gateways
    for name in ("a", "b", "c"):
        await one.topology.put_group(ConsumerGroup(name, invisible_seconds=55))
    await kept.key_values.write([KeyValueChange(f"{GROUPS}b", b"{"), KeyValueChange(f"{GROUPS}c", b'{"name": 7}')])
    await two._catalog.look()
    found = {group.name: group.invisible_seconds for group in two.topology.groups()}
    assert found == {"a": 55, "b": 30, "c": 30}


async def test_an_empty_namespace_is_a_fact(gateways: Gateways):
    one, two = gateways
    await one.topology.put_namespace("team")
    await two._catalog.look()
    assert two.topology.namespaces() == ["default", "team"]
    await two.topology.put_topic(Topic("team/t", queues=1))
    assert await refusal_of(two.topology.delete_namespace("team")) is Code.PRECONDITION_FAILED
    await two.topology.delete_topic("team/t")
    await two.topology.delete_namespace("team")
    await one._catalog.look()
    assert one.topology.namespaces() == ["default"]


async def test_without_facts_a_namespace_is_there_once_it_is_used(cluster: RocketMqServer, clock: ManualClock):
    store = RocketMqStore(settings_of(cluster), clock)
    await store.start()
    assert await refusal_of(store.topology.put_namespace("team")) is Code.UNSUPPORTED
    await store.topology.put_topic(Topic("team/t", queues=1))
    await store.topology.put_namespace("team")
    assert store.topology.namespaces() == ["default", "team"]
    await store.close()
