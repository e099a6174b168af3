"""Shared subscriptions of two gateways over several brokers, one of which goes away and comes back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.gateway.clock import SystemClock
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.messaging.traffic import Traffic
from entrepot.gateway.mqtt.shares.shares import Shares
from entrepot.store_client.remote import RemoteStore
from tests.support.brokers.broker_world import BrokerWorld
from tests.support.mqtt.share_member import KeepingMember
from tests.support.stores.steps import append, append_all, eventually, message
from tests.support.waiting import until
from tests.tiers.marks import scaled

COUNT = scaled(1200, 4000)
FAIR_PART = scaled(10, 4)
"""Each gateway gets at least one in so many: single batches may go to one of them for a while."""


@pytest.fixture
async def gateways(world: BrokerWorld, store: RemoteStore, other: RemoteStore) -> AsyncIterator[list[Shares]]:
    await world.topic()
    opened = [
        Shares(each, SystemClock(), ConsumerGroup, set, Traffic(), Incidents(SystemClock())) for each in (store, other)
    ]
    yield opened
    for each in (store, other):
        each.consumption.release_waiting()
    await asyncio.gather(*(each.close() for each in opened))


async def join_all(gateways: list[Shares], members: list[KeepingMember]) -> None:
    joins = [shares.join("w", "t/#", member) for shares, member in zip(gateways, members, strict=True)]
    await asyncio.gather(*joins)


async def all_settled(store: RemoteStore) -> None:
    async def is_settled() -> bool:
        progress = (await store.topology.group_status("w")).progress
        return len(progress) == 4 and sum(each.lag for each in progress) == 0

    await eventually(is_settled)


@pytest.mark.scaled
async def test_two_gateways_share_what_is_on_two_brokers(gateways: list[Shares], store: RemoteStore):
    members = [KeepingMember(quick=True), KeepingMember(quick=True)]
    await join_all(gateways, members)
    names = [str(n) for n in range(COUNT)]
    for at in range(0, COUNT, 20):
        sent = [message("t", name, int(name) % 2 * 10000 + int(name) // 2 % 2) for name in names[at : at + 20]]
        assert set(await append_all(store, *sent)) == {None}
    await until(lambda: sum(len(each.taken) for each in members) >= COUNT, "all messages")
    assert Counter(members[0].bodies + members[1].bodies) == Counter(names)
    parts = [len(each.taken) for each in members]
    assert min(parts) >= COUNT // FAIR_PART, parts
    await all_settled(store)


async def test_a_broker_that_was_away_is_told_what_was_acknowledged_meanwhile(
    world: BrokerWorld, gateways: list[Shares], store: RemoteStore
):
    members = [KeepingMember(), KeepingMember()]
    await join_all(gateways, members)
    for number in (0, 1):
        await append(store, "t", *(f"{number}.{n}" for n in range(20)), queue_id=number * 10000)
    await until(lambda: sum(len(each.held) for each in members) == 40, "all messages")
    await world.stop(1)
    for member in members:
        member.acknowledge()
    await world.serve(1)
    await all_settled(store)
    await append(store, "t", "late", queue_id=10000)
    await until(lambda: sum(len(each.held) for each in members) == 1, "what came after it was back")
    assert max(Counter(members[0].bodies + members[1].bodies).values()) == 1


async def test_what_a_dead_member_held_of_a_broker_that_is_away_comes_when_it_is_back(
    world: BrokerWorld, gateways: list[Shares], store: RemoteStore
):
    dead, heir = KeepingMember(), KeepingMember()
    await gateways[0].join("w", "t/#", dead)
    await append(store, "t", "1", queue_id=10000)
    await until(lambda: dead.held, "the message")
    await gateways[1].join("w", "t/#", heir)
    await world.stop(1)
    gateways[0].leave("w", "t/#", dead)
    await world.serve(1)
    await until(lambda: heir.bodies == ["1"], "the message of the dead one")
