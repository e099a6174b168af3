"""The group of a share after its last member has gone, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.gateway.mqtt.sessions.shared_filters import shared_filters
from entrepot.gateway.mqtt.shares.unused_groups import SHARE_GROUP_PREFIX, UnusedGroups
from entrepot.gateway.mqtt.topics.names import Share
from entrepot.protocols.mqtt.packets import Puback, Publish, Suback, Subscription, Unsuback, Unsubscribe
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.stores.replaced import replaced
from tests.support.stores.steps import append, bodies, eventually, pop
from tests.support.waiting import until

LIFE_MS = 7 * 86_400_000
"""The setting's default."""
WHOLE, FILTERED = "$share/w/t/#", "$share/w/t/+"


@pytest.fixture
async def door() -> AsyncIterator[MqttDoor]:
    async with MqttDoor() as opened:
        publisher = opened.client()
        await publisher.connect("publisher", expiry=0)
        publisher.say(Publish("t/x", b"the topic", 1, 1))
        await publisher.expect(Puback)
        publisher.lose()
        opened.clock.advance(1)  # groups begin after it
        yield opened


async def member(door: MqttDoor, name: str, *filters: str, expiry: int = 0) -> DoorClient:
    client = door.client()
    await client.connect(name, expiry=expiry)
    for text in filters:
        assert (await client.subscribe(Subscription(text, 1))).reasons == [1]
    return client


async def leave(door: MqttDoor, client: DoorClient, name: str) -> None:
    client.lose()
    await until(lambda: door.mqtt.registry.of(name) is None, "it has gone")


async def publish(door: MqttDoor, *payloads: str) -> None:
    publisher = door.client()
    await publisher.connect("publisher", expiry=0)
    for packet_id, payload in enumerate(payloads, 1):
        publisher.say(Publish("t/x", payload.encode(), 1, packet_id))
        await publisher.expect(Puback)
    publisher.lose()


def group_of(door: MqttDoor, text: str) -> str:
    return door.shares.group_name("w", text.removeprefix("$share/w/"))


def is_there(door: MqttDoor, text: str) -> bool:
    return door.store.topology.group(group_of(door, text)) is not None


async def pass_time(door: MqttDoor, ms: int, steps: int = 16) -> None:
    """Let time pass, with the sweeps that it brings."""
    for _ in range(steps):
        door.clock.advance(ms // steps)
        await door.mqtt.unused_groups.sweep()


async def records(door: MqttDoor) -> list[str]:
    found = await door.store.key_values.scan(SHARE_GROUP_PREFIX)
    return [each.key.removeprefix(SHARE_GROUP_PREFIX) for each in found]


# -- after the last member -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unsubscribes", [False, True])
@pytest.mark.parametrize("text", [WHOLE, FILTERED])
async def test_messages_wait_for_the_next_member_where_the_last_one_was(
    door: MqttDoor, text: str, unsubscribes: bool
) -> None:
    first = await member(door, "first", text)
    await publish(door, "done", "held")
    await until(lambda: len(first.deliveries()) == 2, "both")
    done = next(each for each in first.deliveries() if each.payload == b"done")
    first.say(Puback(done.packet_id))
    if unsubscribes:
        first.say(Unsubscribe(2, [text]))
        await first.expect(Unsuback)
    else:
        await leave(door, first, "first")
    await publish(door, "waiting")
    second = await member(door, "second", text)
    await until(lambda: len(second.deliveries()) == 2, "what was held, and what came meanwhile")
    assert {each.payload for each in second.deliveries()} == {b"held", b"waiting"}


# -- the end ---------------------------------------------------------------------------------------------------------


async def test_a_group_that_nobody_uses_ends_after_its_life_and_not_before(door: MqttDoor) -> None:
    first = await member(door, "first", FILTERED)
    await pass_time(door, 51 * LIFE_MS // 16, 51)
    assert is_there(door, FILTERED), "it is in use"
    await leave(door, first, "first")
    await pass_time(door, LIFE_MS - 16)
    assert is_there(door, FILTERED)
    await pass_time(door, LIFE_MS // 8, 2)
    assert not is_there(door, FILTERED)
    assert door.mqtt.unused_groups.ended == 1
    assert await records(door) == []
    await publish(door, "for nobody")
    door.clock.advance(1)
    again = await member(door, "again", FILTERED)
    await publish(door, "for it")
    await until(again.deliveries, "the message")
    assert [each.payload for each in again.deliveries()] == [b"for it"], "a new group begins now"
    assert await records(door) == [group_of(door, FILTERED)]


async def test_the_group_of_a_whole_topic_ends_only_if_messages_waited_that_nobody_took(door: MqttDoor) -> None:
    first = await member(door, "first", WHOLE)
    await leave(door, first, "first")
    await pass_time(door, 4 * LIFE_MS, 64)
    assert is_there(door, WHOLE), "a consumer of another door may ask for messages, of which there are none"
    await publish(door, "waiting")
    await pass_time(door, 3 * LIFE_MS, 48)
    assert not is_there(door, WHOLE)


async def test_a_group_that_consumers_of_another_door_use_stays(door: MqttDoor) -> None:
    first = await member(door, "first", WHOLE, FILTERED)
    await leave(door, first, "first")
    await publish(door, "m")
    for n in range(12):
        await pass_time(door, LIFE_MS // 3, 4)
        for text in (WHOLE, FILTERED):
            found = await pop(door.store, "t", group_of(door, text))
            assert bodies(found), f"round {n}: a new message"
            await door.store.consumption.acknowledge("t", group_of(door, text), [each.receipt_handle for each in found])
        await append(door.store, "t", "next")
    assert is_there(door, WHOLE)
    assert is_there(door, FILTERED)


async def test_a_group_whose_messages_are_held_stays(door: MqttDoor) -> None:
    first = await member(door, "first", FILTERED)
    await leave(door, first, "first")
    await publish(door, "m")
    assert await pop(door.store, "t", group_of(door, FILTERED), invisible_ms=5 * LIFE_MS)
    await pass_time(door, 4 * LIFE_MS, 64)
    assert is_there(door, FILTERED)


@pytest.mark.parametrize("text", [WHOLE, FILTERED])
async def test_a_group_of_a_lasting_session_that_is_away_stays(door: MqttDoor, text: str) -> None:
    away = await member(door, "away", text, expiry=LIFE_MS // 1000)
    await leave(door, away, "away")
    await publish(door, "waiting")
    short = Lonely(door, 100, partial(shared_filters, door.store))
    await short.pass_time(500_000, 80)
    assert is_there(door, text)
    again = door.client()
    await again.connect("away")
    await until(again.deliveries, "what waited")
    again.say(Unsubscribe(3, [text]))
    await again.expect(Unsuback)
    await until(lambda: not door.shares.groups_in_use(), "the share is over")
    await publish(door, "for nobody")
    await short.pass_time(500_000, 80)
    assert not is_there(door, text)
    await short.groups.close()


async def test_a_group_of_a_member_at_another_gateway_stays(door: MqttDoor) -> None:
    async with MqttDoor(door, is_alone=False) as beside:
        here, there = await member(door, "here", FILTERED), await member(beside, "there", FILTERED)
        await leave(door, here, "here")
        for _ in range(64):
            door.clock.advance(4 * LIFE_MS // 64)
            await beside.mqtt.unused_groups.sweep()
            await door.mqtt.unused_groups.sweep()
        assert is_there(door, FILTERED)
        await publish(beside, "m")
        await until(there.deliveries, "the message")


@pytest.mark.parametrize("is_before", [False, True])
async def test_a_group_that_an_operator_made_or_changed_stays(door: MqttDoor, is_before: bool) -> None:
    group = door.shares.groups._new_group(group_of(door, FILTERED))
    if is_before:
        await door.store.topology.put_group(replace(group, max_attempts=7))
    first = await member(door, "first", FILTERED)
    if not is_before:
        made = door.store.topology.group(group.name)
        assert made is not None
        await door.store.topology.put_group(replace(made, max_attempts=7, revision=0))
    await leave(door, first, "first")
    await publish(door, "waiting")
    await pass_time(door, 4 * LIFE_MS, 64)
    assert is_there(door, FILTERED)
    assert await records(door) == []


async def test_a_group_that_was_deleted_and_made_by_another_door_stays(door: MqttDoor) -> None:
    first = await member(door, "first", FILTERED)
    await leave(door, first, "first")
    name = group_of(door, FILTERED)
    await door.store.topology.delete_group(name)
    await pop(door.store, "t", name)
    await pass_time(door, 4 * LIFE_MS, 64)
    assert is_there(door, FILTERED)


# -- others at the same moment, and a store that fails ---------------------------------------------------------------


class Lonely:
    """The sweeper of a gateway without members, over the door's store. `meanwhile` happens during a look."""

    def __init__(
        self,
        door: MqttDoor,
        life_seconds: int = LIFE_MS // 1000,
        lasting: Callable[[], Awaitable[set[Share]]] | None = None,
    ) -> None:
        self.door, self.looks = door, 0
        self.groups = UnusedGroups(door.store, door.clock, life_seconds, set, lasting or self._lasting)
        self.groups.start()
        self.meanwhile = self._nothing

    async def _lasting(self) -> set[Share]:
        self.looks += 1
        await self.meanwhile()
        return set()

    @staticmethod
    async def _nothing() -> None: ...

    async def pass_time(self, ms: int, steps: int = 16) -> None:
        for _ in range(steps):
            self.door.clock.advance(ms // steps)
            await self.groups.sweep()


async def test_a_member_that_comes_during_the_last_look_keeps_the_group(door: MqttDoor) -> None:
    first = await member(door, "first", FILTERED)
    await leave(door, first, "first")
    lonely = Lonely(door)
    await lonely.pass_time(LIFE_MS - 16)
    assert lonely.looks > 0

    async def come() -> None:
        await member(door, "second", FILTERED)

    lonely.meanwhile = come
    door.clock.advance(LIFE_MS)
    await lonely.groups.sweep()
    assert is_there(door, FILTERED)
    assert lonely.groups.ended == 0
    await lonely.groups.close()


async def test_a_deletion_that_fails_is_done_at_the_next_sweep(door: MqttDoor) -> None:
    first = await member(door, "first", FILTERED)
    await leave(door, first, "first")
    lonely, own = Lonely(door), door.store.topology
    await lonely.pass_time(LIFE_MS - 16)

    async def fail(name: str) -> None:
        raise EntrepotError(Code.UNAVAILABLE, "no broker")

    door.store.topology = replaced(own, delete_group=fail)
    door.clock.advance(LIFE_MS)
    with pytest.raises(EntrepotError):
        await lonely.groups.sweep()
    door.store.topology = own
    assert is_there(door, FILTERED)
    await lonely.groups.sweep()
    assert not is_there(door, FILTERED)
    assert lonely.groups.ended == 1
    await lonely.groups.close()


async def test_a_record_that_cannot_be_read_ends_no_group(door: MqttDoor) -> None:
    first = await member(door, "first", FILTERED)
    await leave(door, first, "first")
    key = SHARE_GROUP_PREFIX + group_of(door, FILTERED)
    await door.store.key_values.write([KeyValueChange(key, b"\xc1")])
    await pass_time(door, 2 * LIFE_MS, 32)
    assert is_there(door, FILTERED)
    assert await records(door) == []


async def test_without_a_life_nothing_is_written_or_ended(door: MqttDoor) -> None:
    lonely = Lonely(door, 0)
    assert not lonely.groups.is_on
    door.shares.groups.on_made, door.shares.on_used = lonely.groups.made, lonely.groups.used
    await member(door, "first", FILTERED)
    assert await records(door) == []


async def test_a_share_is_joined_though_its_use_cannot_be_written_down(door: MqttDoor) -> None:
    own = door.store.key_values

    async def fail(*_: object) -> int:
        raise EntrepotError(Code.UNAVAILABLE, "no broker")

    door.store.key_values = replaced(own, write=fail, get=fail)
    await door.mqtt.unused_groups.used({"w"})
    client = door.client()
    door.store.key_values = own
    await client.connect("first", expiry=0)
    door.store.key_values = replaced(own, write=fail, get=fail)
    assert isinstance(await client.subscribe(Subscription(FILTERED, 1)), Suback)
    door.store.key_values = own
    assert is_there(door, FILTERED)
    assert await records(door) == []
    await asyncio.sleep(0)
    await eventually(lambda: _is_shared(door))


async def _is_shared(door: MqttDoor) -> bool:
    return group_of(door, FILTERED) in door.shares.groups_in_use()
