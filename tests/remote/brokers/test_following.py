"""Subscribers of a gateway while brokers come, go, move and begin anew: nothing is lost, and nothing comes twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.ports import Pulled
from entrepot.domain.route import TopicRoute
from entrepot.domain.topic import Topic
from entrepot.domain.topic_shares import ReportedBroker, TopicShares
from entrepot.store_client.remote import RemoteStore
from tests.support.brokers.broker_world import BrokerWorld
from tests.support.brokers.served_broker import connect
from tests.support.mqtt.hub_subscriber import HubSubscriber, follow
from tests.support.stores.steps import append
from tests.support.waiting import until

QUEUE = 10000
"""The first of broker-1."""


async def send(store: RemoteStore, *bodies: str, queue_id: int = QUEUE) -> None:
    await append(store, "t", *(f"!{body}" for body in bodies), queue_id=queue_id)


async def has(subscriber: HubSubscriber, body: str) -> None:
    await until(lambda: body in subscriber.bodies, lambda: f"{body} is there: {subscriber.bodies}")


def numbered(name: str, count: int = 20) -> list[str]:
    return [f"{name}{number}" for number in range(count)]


async def test_a_lagging_subscriber_whose_broker_is_away_loses_nothing(
    world: BrokerWorld, store: RemoteStore, monkeypatch: pytest.MonkeyPatch
):
    await world.topic()
    hub, subscriber = await follow(store, world.clock, room=3)
    sent = numbered("m")
    await send(store, *sent)
    key = ("t", QUEUE)
    await until(lambda: subscriber.lagging, "it lags")
    await until(lambda: hub._tails[key].next_offset == len(sent), "the tail is at the end")
    await world.stop(1)
    subscriber.room = 1 << 30
    reads: list[int] = []
    pull = store.messages.pull

    async def counted(
        topic: str, queue_id: int, from_offset: int, max_messages: int, filter: FilterExpression | None = None
    ) -> Pulled:
        reads.append(from_offset)
        return await pull(topic, queue_id, from_offset, max_messages, filter)

    monkeypatch.setattr(store.messages, "pull", counted)
    hub.catch_up(subscriber)
    await until(lambda: len(reads) > 1 or not subscriber.lagging, "it has tried, and tried again")
    assert subscriber.lagging == {key: 3}
    await world.serve(1)
    await until(lambda: not subscriber.lagging, "it has caught up")
    await send(store, "last")
    await has(subscriber, "last")
    assert subscriber.bodies == [*sent, "last"]
    assert set(reads[:2]) == {3}


async def test_a_broker_that_joins_after_advice_about_faults_is_followed(world: BrokerWorld):
    await world.stop(1)
    store = await connect(world.brokers[0], clock=world.clock)
    try:
        await store.topology.put_topic(Topic("t", queues=2))
        _, subscriber = await follow(store, world.clock)
        store.cluster.failed(store.cluster.ready[0])
        await world.brokers[1].serve()
        store.cluster.add(world.brokers[1].address)
        await until(lambda: world.brokers[1].broker.topology.topic("t") is not None, "it has the topic")
        known = [client.view.topics for client in store.cluster.clients.values()]
        await until(lambda: all("t" in each for each in known), "that is known")
        await send(store, *numbered("m"))
        await until(lambda: len(subscriber.bodies) == 20, lambda: f"all are there: {subscriber.bodies}")
        assert subscriber.bodies == numbered("m")
    finally:
        await store.close()


@pytest.mark.parametrize("cursor", [0, 7, 20])
async def test_a_session_reads_on_in_a_queue_whose_broker_is_known_later(world: BrokerWorld, cursor: int):
    """As when all began anew at once, and one broker was the last."""
    first = await connect(*world.brokers, clock=world.clock)
    await first.topology.put_topic(Topic("t", queues=2))
    await send(first, *numbered("m"))
    await send(first, *numbered("n"), queue_id=0)
    await first.close()
    store = await connect(world.brokers[0], clock=world.clock)
    try:
        hub, live = await follow(store, world.clock)
        back = HubSubscriber()
        back.subscribe(hub, "t")
        hub.resume(back, ["t"], {("t", 0): 15, ("t", QUEUE): cursor})
        await until(lambda: len(back.bodies) == 5, lambda: f"what is known: {back.bodies}")
        store.cluster.add(world.brokers[1].address)
        await until(lambda: len(store.cluster.ready) == 2, "it is known")
        await until(lambda: ("t", QUEUE) in hub._tails, "it is followed")
        await send(store, "last")
        await has(back, "last")
        assert [body for body in back.bodies if body[0] != "n"] == [*numbered("m")[cursor:], "last"]
        assert not back.lagging and not hub._awaited
        await has(live, "last")
    finally:
        await store.close()


async def test_who_has_gone_awaits_nothing(world: BrokerWorld):
    store = await connect(world.brokers[0], clock=world.clock)
    try:
        await store.topology.put_topic(Topic("t", queues=2))
        hub, _ = await follow(store, world.clock)
        back = HubSubscriber()
        back.subscribe(hub, "t")
        hub.resume(back, ["t"], {("t", QUEUE): 7})
        assert hub._awaited
        hub.unsubscribe(back, "t")
        hub.leave(back)
        assert not hub._awaited
    finally:
        await store.close()


async def test_a_broker_that_comes_back_at_another_address_is_not_replayed(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    moved = world.brokers[1]

    def routes(epoch: int) -> list[ReportedBroker]:
        infos = [replace(each.info(), epoch=epoch) for each in world.brokers]
        return [ReportedBroker(info, epoch, TopicShares([TopicRoute("t", 2, 2)])) for info in infos]

    store.cluster.take_routes(routes(1))
    _, subscriber = await follow(store, world.clock)
    sent = numbered("m")
    await send(store, *sent)
    await until(lambda: len(subscriber.bodies) == len(sent), "all are there")
    before = moved.address
    await moved.stop()
    moved.port = 0
    await moved.serve()
    assert moved.address != before
    store.cluster.take_routes(routes(2))
    await until(lambda: len(store.cluster.ready) == 2, "it is back")
    await send(store, "last")
    await has(subscriber, "last")
    assert subscriber.bodies == [*sent, "last"]


@pytest.mark.parametrize("was_away", [False, True])
async def test_a_topic_made_anew_through_another_gateway_is_followed_from_its_beginning(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore, was_away: bool
):
    await world.topic()
    _, subscriber = await follow(other, world.clock)
    before = numbered("before")
    await send(store, *before)
    await until(lambda: len(subscriber.bodies) == len(before), "all are there")
    if was_away:
        for client in other.cluster.clients.values():
            await client.link.close()
    await store.topology.delete_topic("t")
    await store.topology.put_topic(Topic("t", queues=2))
    after = numbered("after", 40)
    await send(store, *after)
    if was_away:
        for client in other.cluster.clients.values():
            client.link._is_closed = False
            client.link.start()
    await send(store, "last")
    await has(subscriber, "last")
    assert subscriber.bodies == [*before, *after, "last"]


@pytest.mark.parametrize("is_later", [False, True])
async def test_a_broker_that_comes_back_with_an_empty_store_is_followed_from_its_beginning(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore, tmp_path: Path, is_later: bool
):
    """`is_later`: this gateway sees it when another has told it of its topics, and messages have come."""
    await world.topic()
    _, subscriber = await follow(other, world.clock)
    before = numbered("before")
    await send(store, *before)
    await until(lambda: len(subscriber.bodies) == len(before), "all are there")
    link = next(client.link for client in other.cluster.clients.values() if client.number == 1)
    if is_later:
        await link.close()
    await world.replace(1, tmp_path / "empty")
    await until(lambda: world.brokers[1].broker.topology.topic("t") is not None, "it was told of the topic")
    await until(lambda: len(store.cluster.ready) == 2, "it is back")
    after = numbered("after", 15)
    await send(store, *after)
    if is_later:
        link._is_closed = False
        link.start()
    await send(store, "last")
    await has(subscriber, "last")
    assert subscriber.bodies == [*before, *after, "last"]
