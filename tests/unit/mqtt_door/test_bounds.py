"""Whatever one client sends, what the door keeps for it has a limit."""

from __future__ import annotations

import asyncio

from entrepot.protocols.mqtt.packets import Publish, Suback, Subscribe, Subscription
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.mqtt.door import MqttDoor
from tests.support.waiting import until


async def test_subscribing_again_and_again_without_reading() -> None:
    """Each SUBSCRIBE asks for all that is retained; a client that does not read waits for one of them."""
    async with MqttDoor() as door:
        publisher = door.client()
        await publisher.connect("publisher", expiry=0)
        for number in range(200):
            publisher.say(Publish(f"r/{number}", b"x" * 100, 0, 0, True))
        await until(lambda: door.retained.count == 200, "all of it is retained")
        deaf = door.client()
        await deaf.connect("deaf", expiry=0)
        deaf.is_congested = True
        tasks = len(asyncio.all_tasks())
        for packet_id in range(1, 501):
            deaf.say(Subscribe(packet_id, [Subscription("r/#", 0)]))
        await until(lambda: sum(isinstance(each, Suback) for each in deaf.packets) == 500, "all of it is answered")
        assert len(asyncio.all_tasks()) <= tasks + 10
        await until(lambda: deaf.conversation.outbox.waiting, "what is retained waits for it")
        assert deaf.conversation.outbox.waiting <= 64
        deaf.is_congested = False
        deaf.conversation.writable()
        deaf.flush()
        await until(lambda: len(deaf.deliveries()) >= 200, "then it gets all")
        assert {each.topic for each in deaf.deliveries()} == {f"r/{number}" for number in range(200)}


async def test_the_filters_of_a_session_fit_into_its_record() -> None:
    """Beyond that a subscription is refused; the session goes on, and comes back as it was."""
    async with MqttDoor() as door:
        client = door.client()
        await client.connect("c")
        granted: list[str] = []
        for number in range(40):
            text = f"{number}/" + "€" * 20_000
            reason = (await client.subscribe(Subscription(text, 1))).reasons[0]
            if reason == 1:
                granted.append(text)
            else:
                assert reason == ReasonCode.QUOTA_EXCEEDED
        assert 0 < len(granted) < 40
        assert (await client.subscribe(Subscription(granted[0], 0))).reasons == [0], "it has that one already"
        assert (await client.subscribe(Subscription("short", 1))).reasons == [1]
        client.lose()
        again = door.client()
        assert (await again.connect("c")).session_present
        assert list(again.conversation.subscribing.records) == [*granted, "short"]


async def test_more_is_published_than_can_be_retained_at_once() -> None:
    """What waits for its retained message to be kept is bounded: the client is not read meanwhile."""
    async with MqttDoor() as door:
        store = door.store
        client = door.client()
        await client.connect("c", expiry=0)
        store.gate.clear()
        sent = 0
        while not client.is_paused and sent < 10_000:
            client.say(Publish(f"r/{sent}", b"x" * 1000, 0, 0, True))
            sent += 1
            await asyncio.sleep(0)
        assert client.is_paused
        store.gate.set()
        await until(lambda: not client.is_paused, "it is read on")
        await until(lambda: door.retained.count == sent, "nothing of it is lost")
