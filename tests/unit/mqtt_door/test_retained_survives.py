"""A retained message that cannot be read or said keeps no other from a subscriber; each is told to the operator."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.mqtt.connections import retained_delivery
from entrepot.gateway.mqtt.connections.retained_delivery import PART, RETAINED_BATCH
from entrepot.gateway.mqtt.fan_out.audience import encoded
from entrepot.protocols.mqtt.packets import Puback, Publish, Subscription
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.waiting import until

NAMES = [f"r/{number:03}" for number in range(RETAINED_BATCH + 5)]
BAD = {NAMES[1], NAMES[-1]}
GOOD = [name for name in NAMES if name not in BAD]


async def subscribed(door: MqttDoor, *subscriptions: Subscription) -> DoorClient:
    """A new client, which has got what it is to get: also what is live."""
    publisher, client = door.client(), door.client()
    await publisher.connect("publisher", expiry=0)
    publisher.say(*(Publish(name, b"x", 0, 0, True) for name in NAMES))
    await until(lambda: door.retained.count == len(NAMES), "all is retained")
    await client.connect("c", expiry=0)
    await client.subscribe(*subscriptions)
    publisher.say(Publish("r/live", b"x", 1, 1))
    await publisher.expect(Puback)
    await until(lambda: "r/live" in [each.topic for each in client.deliveries()], "what is live comes")
    return client


def names_of(client: DoorClient) -> list[str]:
    return sorted(each.topic for each in client.deliveries() if each.retain)


def set_aside(door: MqttDoor) -> list[tuple[str, str, str]]:
    found = [each for each in door.sender.incidents.last if (each.part, each.outcome) == (PART, Outcome.SET_ASIDE)]
    return [(each.place, each.reason, each.client) for each in found]


@pytest.mark.parametrize(
    "fault", [RuntimeError("odd"), EntrepotError(Code.INTERNAL_ERROR, "odd")], ids=["ours", "the store's"]
)
async def test_one_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    async with MqttDoor() as door:
        read = door.retained.read

        async def failing(names: Sequence[str]) -> Sequence[StoredMessage]:
            if BAD.intersection(names):
                raise fault
            return await read(names)

        monkeypatch.setattr(door.retained, "read", failing)
        client = await subscribed(door, Subscription("r/#", 1))
        assert names_of(client) == GOOD
        reason = f"{type(fault).__name__}: {fault}"
        assert sorted(set_aside(door)) == [(name, reason, "c") for name in sorted(BAD)]


async def test_one_that_cannot_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MqttDoor() as door:

        def failing(message: StoredMessage, *rest: object, **more: object) -> object:
            if message.sub_topic in BAD:
                raise ValueError(message.sub_topic)
            return encoded(message, *rest, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(retained_delivery, "encoded", failing)
        client = await subscribed(door, Subscription("r/#", 1))
        assert names_of(client) == GOOD
        assert [reason for _, reason, _ in set_aside(door)] == [f"ValueError: {name}" for name in sorted(BAD)]


async def test_a_subscription_whose_names_cannot_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one of the same SUBSCRIBE gets what is retained for it."""
    async with MqttDoor() as door:
        pages = door.retained.pages

        def failing(topic_filter: str, after: str | None = None) -> object:
            if topic_filter == "+/#":
                raise KeyError(topic_filter)
            return pages(topic_filter, after)

        monkeypatch.setattr(door.retained, "pages", failing)
        client = await subscribed(door, Subscription("+/#", 0), Subscription("r/#", 1))
        assert names_of(client) == NAMES
        assert set_aside(door) == [("+/#", "KeyError: '+/#'", "c")]


async def test_a_store_that_is_away_is_not_asked_for_each_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MqttDoor() as door:
        asked: list[int] = []

        async def failing(names: Sequence[str]) -> Sequence[StoredMessage]:
            asked.append(len(names))
            raise EntrepotError(Code.UNAVAILABLE, "it is away")

        monkeypatch.setattr(door.retained, "read", failing)
        client = await subscribed(door, Subscription("r/#", 1))
        assert (asked, names_of(client)) == ([RETAINED_BATCH], [])
        assert set_aside(door) == [("r/#", "EntrepotError: it is away", "c")]


async def test_figures_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MqttDoor() as door:

        def failing(_: str) -> list[StoredMessage]:
            raise RuntimeError("odd")

        monkeypatch.setattr(door.mqtt.services, "sys_messages", failing)
        client = await subscribed(door, Subscription("$SYS/#", 0), Subscription("r/#", 0))
        assert names_of(client) == NAMES
        assert set_aside(door) == [("$SYS/#", "RuntimeError: odd", "c")]
