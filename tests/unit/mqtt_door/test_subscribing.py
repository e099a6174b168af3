"""Subscriptions of one connection: what each option does, when SUBACK comes, and how they end."""

from __future__ import annotations

import pytest

from entrepot.protocols.mqtt.packets import Puback, Publish, Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.waiting import until


async def connected(door: MqttDoor, name: str = "c", version: int = 5) -> DoorClient:
    client = door.client(version)
    await client.connect(name)
    return client


async def publish(client: DoorClient, name: str, payload: bytes = b"x", *, retain: bool = False) -> None:
    client.say(Publish(name, payload, 1, 9, retain))
    await client.expect(Puback)


async def unsubscribe(client: DoorClient, *filters: str) -> list[ReasonCode]:
    client.say(Unsubscribe(2, list(filters)))
    return list((await client.expect(Unsuback)).reasons)


def got(client: DoorClient) -> list[tuple[str, int, bool]]:
    return [(each.topic, each.qos, each.retain) for each in client.deliveries()]


@pytest.mark.parametrize(("handling", "times"), [(0, 2), (1, 1), (2, 0)])
async def test_retain_handling(handling: int, times: int) -> None:
    """3.3.1-9, -10, -11: for each SUBSCRIBE, for the first of a filter, or never."""
    async with MqttDoor() as door:
        client = await connected(door)
        await publish(client, "r/x", retain=True)
        for _ in range(2):
            await client.subscribe(Subscription("r/#", 1, retain_handling=handling))
            await until(lambda: not client.conversation.outbox.has_backlog, "what is retained has been sent")
        await publish(client, "r/y")
        await until(lambda: ("r/y", 1, False) in got(client), "what is live comes")
        assert got(client) == [("r/x", 1, True)] * times + [("r/y", 1, False)]


@pytest.mark.parametrize(
    ("as_published", "version", "expected"), [(True, 5, True), (False, 5, False), (False, 4, False)]
)
async def test_retain_as_published(as_published: bool, version: int, expected: bool) -> None:
    async with MqttDoor() as door:
        client, other = await connected(door, version=version), await connected(door, "other")
        await client.subscribe(Subscription("r/#", 1, retain_as_published=as_published))
        await publish(other, "r/x", retain=True)
        await until(client.deliveries, "it comes")
        assert got(client) == [("r/x", 1, expected)]


async def test_no_local() -> None:
    """It gets nothing of its own by such a subscription, until none is such."""
    async with MqttDoor() as door:
        client, other = await connected(door), await connected(door, "other")
        await client.subscribe(Subscription("t/#", 1, no_local=True), Subscription("u/#", 1))
        await publish(client, "t/own")
        await publish(client, "u/own")
        await publish(other, "t/theirs")
        await until(lambda: len(got(client)) == 2, "the others come")
        assert sorted(got(client)) == [("t/theirs", 1, False), ("u/own", 1, False)]
        assert client.conversation.client.wants_no_local
        await client.subscribe(Subscription("t/#", 1))
        assert not client.conversation.client.wants_no_local
        await publish(client, "t/again")
        await until(lambda: ("t/again", 1, False) in got(client), "its own comes now")


async def test_a_later_subscribe_replaces_the_options() -> None:
    async with MqttDoor() as door:
        client = await connected(door)
        await client.subscribe(Subscription("t/#", 1))
        client.say(Subscribe(3, [Subscription("t/#", 0)], {PropertyId.SUBSCRIPTION_IDENTIFIER: [7]}))
        assert (await client.expect(Suback)).reasons == [0]
        await publish(client, "t/x")
        await until(client.deliveries, "it comes")
        [delivery] = client.deliveries()
        assert (delivery.qos, delivery.properties) == (0, {PropertyId.SUBSCRIPTION_IDENTIFIER: [7]})
        assert len(client.conversation.subscribing.records) == 1


async def test_suback_comes_once_the_record_is_durable() -> None:
    """What is live from then on comes behind it."""
    async with MqttDoor() as door:
        client, other = await connected(door), await connected(door, "other")
        door.store.gate.clear()
        client.say(Subscribe(1, [Subscription("t/#", 0)]))
        await until(lambda: door.store.waiting, "the record is being written")
        await publish(other, "t/x")
        await until(lambda: client.conversation.outbox.waiting, "it waits")
        assert not [each for each in client.packets if isinstance(each, Suback | Publish)]
        door.store.gate.set()
        await until(client.deliveries, "it comes")
        assert [type(each) for each in client.packets] == [Suback, Publish]
        assert client.conversation.outbox.holds == client.conversation.subscribing.settling == 0


async def test_unsubscribe() -> None:
    """3.11.3: each filter has its own answer."""
    async with MqttDoor() as door:
        client = await connected(door)
        await client.subscribe(Subscription("t/#", 1), Subscription("u/#", 1), Subscription("$replay/earliest/v", 0))
        filters = "t/#", "t/#", "never", "a/#/b", "$replay/earliest/v"
        assert await unsubscribe(client, *filters) == [
            ReasonCode.SUCCESS,
            ReasonCode.NO_SUBSCRIPTION_EXISTED,
            ReasonCode.NO_SUBSCRIPTION_EXISTED,
            ReasonCode.TOPIC_FILTER_INVALID,
            ReasonCode.SUCCESS,
        ]
        assert list(client.conversation.subscribing.records) == ["u/#"]
        assert client.conversation.subscribing.replays == {}
        await publish(client, "t/x")
        await publish(client, "u/x")
        await until(client.deliveries, "the other one comes")
        assert got(client) == [("u/x", 1, False)]
        client.lose()
        await until(lambda: not door.mqtt.registry.of("c"), "it is away")
        again = await connected(door)
        assert list(again.conversation.subscribing.records) == ["u/#"], "as the record says"


async def test_a_revoked_right_ends_its_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MqttDoor() as door:
        client = await connected(door)
        await client.subscribe(
            Subscription("t/#", 1),
            Subscription("u/#", 1),
            Subscription("$share/g/t/x", 1),
            Subscription("$share/h/u", 1),
        )
        access = door.mqtt.services.access
        monkeypatch.setattr(
            access, "may_subscribe", lambda _, topic_filter, group="": topic_filter[0] != "t" and group != "h"
        )
        client.conversation.subscribing.ask_again()
        assert list(client.conversation.subscribing.records) == ["u/#"]
        assert client.conversation.subscribing.shares == {}
        assert client.conversation.client.refused == 3
        assert client.conversation.client.last_refusal.text == "$share/h/u: the right to it was revoked"
        await publish(client, "t/x")
        await publish(client, "u/x")
        await until(client.deliveries, "the other one comes")
        assert got(client) == [("u/x", 1, False)]


async def test_a_refused_filter_refuses_no_other() -> None:
    async with MqttDoor() as door:
        client = await connected(door)
        answer = await client.subscribe(Subscription("a/#/b", 1), Subscription("t/+", 2), Subscription("$share/g", 0))
        invalid = ReasonCode.TOPIC_FILTER_INVALID
        assert answer.reasons == [invalid, 2, invalid]
        await publish(client, "t/x")
        await until(client.deliveries, "it comes")
