"""Retained and live agree: what is retained for a name is the last message of the log, whichever gateways published."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.retained import is_over, retained_key
from entrepot.gateway.mqtt.sessions.record import SessionRecord, WillRecord
from entrepot.gateway.mqtt.sessions.will_publishing import WillPublishing
from entrepot.protocols.mqtt.packets import Puback, Publish
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.mqtt.door import DoorClient, HeldStore, MqttDoor
from tests.support.seed import seeded
from tests.support.stores.replaced import replaced
from tests.support.stores.retained import names_matching
from tests.support.waiting import until

NAMES = [f"t/{number}" for number in range(120)]


@pytest.fixture
def chance() -> random.Random:
    return seeded("retained order")


@pytest.fixture
async def doors() -> AsyncIterator[tuple[MqttDoor, MqttDoor]]:
    async with MqttDoor(is_alone=False) as one, MqttDoor(one, is_alone=False) as other:
        yield one, other


def shake(store: HeldStore, chance: random.Random) -> None:
    """Let each write and question of key-values take some steps of the loop, before and after the store has it."""
    write, get = store.own.write, store.own.get

    async def steps() -> None:
        for _ in range(chance.choice((0, 0, 1, 3, 10, 40))):
            await asyncio.sleep(0)

    async def slow_write(changes: Sequence[KeyValueChange]) -> int:
        await steps()
        version = await write(changes)
        await steps()
        return version

    async def slow_get(keys: Sequence[str]):
        await steps()
        found = await get(keys)
        await steps()
        return found

    store.key_values.write = slow_write  # type: ignore[method-assign]
    store.key_values.get = slow_get  # type: ignore[method-assign]


async def last_of_log(door: MqttDoor) -> dict[str, StoredMessage]:
    """The last retained publish of each name in the log, without those that delete and those that expired."""
    found: dict[str, StoredMessage] = {}
    for bounds in await door.store.messages.bounds("t"):
        at = bounds.min_offset
        while messages := await door.store.messages.read("t", bounds.queue_id, at, 100):
            at = messages[-1].queue_offset + 1
            found.update({m.sub_topic: m for m in messages if SystemProperty.RETAIN in m.system})
    now_ms = door.clock.now_ms()
    return {
        name: message
        for name, message in found.items()
        if message.body and not is_over(message.time_ms(SystemProperty.EXPIRES_AT_MS) or 0, now_ms)
    }


async def check(*doors: MqttDoor) -> None:
    expected = await last_of_log(doors[0])
    await until(lambda: all(sorted(names_matching(d.retained, "t/#")) == sorted(expected) for d in doors), "the index")
    for door in doors:
        kept = {each.sub_topic: each for each in await door.retained.read(NAMES)}
        assert {name: each.body for name, each in kept.items()} == {n: each.body for n, each in expected.items()}
        assert {name: each.message_id for name, each in kept.items()} == {
            name: each.message_id for name, each in expected.items()
        }


def answered(client: DoorClient) -> int:
    return sum(isinstance(each, Puback) for each in client.packets)


async def settled(doors: Sequence[MqttDoor], sent: int, clients: Sequence[DoorClient] = (), answers: int = 0) -> None:
    await until(lambda: sum(door.sender.sent for door in doors) == sent, "everything is in the log")
    await until(lambda: sum(map(answered, clients)) == answers, "every publish is answered")
    await until(lambda: not any(door.retained.order.is_busy for door in doors), "the order is looked after")


async def clients_of(doors: Sequence[MqttDoor], each: int) -> list[DoorClient]:
    clients = []
    for number, door in enumerate(doors):
        for place in range(each):
            client = door.client()
            await client.connect(f"c{number}{place}", expiry=0)
            clients.append(client)
    return clients


async def test_published_at_two_gateways_at_once(doors, chance) -> None:
    one, _ = doors
    clients = await clients_of(doors, 2)
    shake(one.store, chance)
    at = [0] * len(clients)
    orders = [chance.sample(NAMES, len(NAMES)) for _ in clients]
    while any(place < len(NAMES) for place in at):
        number = chance.randrange(len(clients))
        run = orders[number][at[number] : at[number] + chance.randint(1, 8)]
        clients[number].say(
            *(
                Publish(name, f"{number} {name}".encode(), 1, at[number] + place + 1, True)
                for place, name in enumerate(run)
            )
        )
        at[number] += len(run)
        await asyncio.sleep(0)
    await settled(doors, len(clients) * len(NAMES), clients, len(clients) * len(NAMES))
    assert len(await last_of_log(one)) == len(NAMES)
    await check(*doors)


async def test_with_deletions_expiries_qos_0_and_several_of_a_name(doors, chance) -> None:
    one, _ = doors
    clients = await clients_of(doors, 2)
    shake(one.store, chance)
    confirmed = 0
    for step in range(600):
        number = chance.randrange(len(clients))
        qos = chance.randrange(2)
        confirmed += qos
        body = b"" if chance.random() < 0.3 else f"{step}".encode()
        properties = {PropertyId.MESSAGE_EXPIRY_INTERVAL: chance.choice((1, 100))} if chance.random() < 0.3 else {}
        publish = Publish(chance.choice(NAMES), body, qos, step + 1 if qos else 0, True, False, properties)
        clients[number].say(publish)
        if chance.random() < 0.1:
            await asyncio.sleep(0)
        if step % 100 == 99:
            await settled(doors, step + 1, clients, confirmed)
            one.clock.advance(2000)
            for door in doors:
                await door.retained.sweep()
            await check(*doors)


async def test_wills_bridges_and_clients(doors, chance) -> None:
    one, _ = doors
    clients = await clients_of(doors, 1)
    shake(one.store, chance)
    tasks = []
    for step in range(60):
        door, client = chance.choice(list(zip(doors, clients, strict=True)))
        name = chance.choice(NAMES[:5])
        kind = chance.choice(("will", "bridge", "client"))
        if kind == "will":
            will, services = WillRecord(name, f"will {step}".encode(), 1, True, {}), door.mqtt.services
            wills = WillPublishing(services.routes, door.retained, door.sender, door.clock)
            tasks.append(asyncio.create_task(wills.publish(SessionRecord("gone", 1, "", 5, "", 0, 0), will)))
        elif kind == "bridge":
            message = Message("t", f"bridge {step}".encode(), name, -2, system={SystemProperty.RETAIN: "1"})
            tasks.append(asyncio.create_task(door.retained.publish([message], door.sender)))
        else:
            client.say(Publish(name, f"client {step}".encode(), 0, 0, True))
        if chance.random() < 0.5:
            await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    await settled(doors, 60)
    await check(*doors)


# -- races that are certain ----------------------------------------------------------------------------------------


def retained(name: str, body: bytes) -> Message:
    return Message("t", body, name, -2, system={SystemProperty.RETAIN: "1"})


async def lost_race(one: MqttDoor, other: MqttDoor, *names: str) -> list[Message]:
    """The log ends with the other gateway's messages, and the one's are kept; the one has yet to look."""
    early, late = [retained(name, b"early") for name in names], [retained(name, b"late") for name in names]
    await other.retained.keep_first(late, other.sender)
    await one.retained.keep_first(early, one.sender)
    assert await one.sender.send_and_wait(early) is None
    assert await other.sender.send_and_wait(late) is None
    return late


async def bodies_kept(door: MqttDoor, *names: str) -> list[bytes]:
    return [each.body for each in await door.retained.read(names)]


async def test_the_last_of_the_log_is_kept_once_its_gateway_has_looked(doors) -> None:
    one, other = doors
    late = await lost_race(one, other, "t/a")
    assert await bodies_kept(one, "t/a") == [b"early"]
    await other.retained.order.check(late)
    assert await bodies_kept(one, "t/a") == await bodies_kept(other, "t/a") == [b"late"]


async def test_a_publish_is_answered_when_the_race_is_settled(doors) -> None:
    """Without that, a client may see another message than its own after its PUBACK."""
    one, other = doors
    client = other.client()
    await client.connect("c", expiry=0)
    look, may_look = one.store.key_values.get, asyncio.Event()
    looks = 0

    async def held_look(keys: Sequence[str]):
        nonlocal looks
        looks += 1
        await may_look.wait()
        return await look(keys)

    one.store.key_values.get = held_look  # type: ignore[method-assign]
    client.say(Publish("t/a", b"its own", 1, 1, True))
    await until(lambda: looks, "the gateway looks")
    assert answered(client) == 0 and other.sender.sent == 1
    may_look.set()
    await client.expect(Puback)


async def test_a_name_that_cannot_be_followed_now_does_not_stop_the_others(doors) -> None:
    one, other = doors
    late = await lost_race(one, other, "t/a", "t/b", "t/c")
    own = one.store.finder

    async def find(message_id: bytes, *, everywhere: bool = False) -> list[StoredMessage]:
        if message_id == late[1].message_id:
            raise EntrepotError(Code.UNAVAILABLE, "it is away")
        return await own.messages_by_id(message_id, everywhere=everywhere)

    one.store.finder = replaced(own, messages_by_id=find)
    with pytest.raises(EntrepotError, match="it is away"):
        await other.retained.order.check(late)
    assert await bodies_kept(one, "t/a", "t/b", "t/c") == [b"late", b"early", b"late"]


async def test_without_a_look_up_of_messages_the_last_write_counts(doors) -> None:
    one, other = doors
    late = await lost_race(one, other, "t/a")

    async def find(message_id: bytes, *, everywhere: bool = False) -> list[StoredMessage]:
        raise EntrepotError(Code.UNSUPPORTED, "no look-up")

    one.store.finder = replaced(one.store.finder, messages_by_id=find)
    await other.retained.order.check(late)
    assert await bodies_kept(one, "t/a") == [b"early"]


async def test_a_kept_value_that_nobody_can_read_is_replaced(doors) -> None:
    one, other = doors
    late = await lost_race(one, other, "t/a")
    await one.store.key_values.write([KeyValueChange(retained_key("t/a"), b"\xc1")])
    await other.retained.order.check(late)
    assert await bodies_kept(one, "t/a") == [b"late"]


async def test_live_messages_and_other_names_are_not_taken_for_retained_ones(doors) -> None:
    """What comes behind the race in its queue."""
    one, other = doors
    late = await lost_race(one, other, "t/a")
    behind = [Message("t", b"live", "t/a", -2), retained("t/b", b"another"), Message("t", b"live", "t/a", -2)]
    assert await one.sender.send_and_wait(behind) is None
    await other.retained.order.check(late)
    assert await bodies_kept(one, "t/a") == [b"late"]


async def test_a_deletion_that_is_last_in_the_log_deletes(doors) -> None:
    one, other = doors
    early, late = retained("t/a", b"early"), retained("t/a", b"")
    await other.retained.keep_first([late], other.sender)
    await one.retained.publish([early], one.sender)
    assert await other.sender.send_and_wait([late]) is None
    await other.retained.order.check([late])
    assert await bodies_kept(one, "t/a") == []


async def test_several_of_one_gateway_are_looked_at_once_the_last_has_ended(doors) -> None:
    one, _ = doors
    first, second = retained("t/a", b"first"), retained("t/a", b"second")
    await one.retained.keep_first([second], one.sender)
    await one.retained.keep_first([first], one.sender)
    assert await one.sender.send_and_wait([first, second]) is None
    await one.retained.order.end([first], [first])
    assert await bodies_kept(one, "t/a") == [b"first"] and one.retained.order.is_busy
    await one.retained.order.end([second], ())
    assert await bodies_kept(one, "t/a") == [b"first"]  # the second's outcome is not known: no look for it
    assert not one.retained.order.is_busy


async def test_one_that_was_not_stored_leaves_nothing_under_way(doors) -> None:
    one, _ = doors
    message = retained("t/a", b"a")

    async def refused():
        raise EntrepotError(Code.UNAVAILABLE, "the log is away")

    kept = [message]
    await one.retained.keep_first(kept, one.sender)
    assert one.retained.order.is_busy
    with pytest.raises(EntrepotError):
        await one.retained.published([message], kept, refused())
    assert not one.retained.order.is_busy


async def test_a_name_with_the_same_hash_is_not_taken_for_it(doors) -> None:
    one, other = doors
    late = await lost_race(one, other, "t/a")
    another = retained("t/b", b"another")
    another.queue_id = late[0].queue_id
    assert await one.sender.send_and_wait([another]) is None
    own = one.store.messages

    async def every_offset(topic: str, queue_id: int, name: str, at: int, limit: int) -> tuple[list[int], int]:
        [bounds] = [each for each in await own.bounds(topic) if each.queue_id == queue_id]
        return list(range(at, bounds.max_offset)), bounds.max_offset

    one.store.messages = replaced(own, matching_offsets=every_offset)
    await other.retained.order.check(late)
    assert await bodies_kept(one, "t/a") == [b"late"]


async def test_mending_never_undoes_a_newer_one(doors) -> None:
    """Which another gateway keeps and stores between the look and the write."""
    one, other = doors
    late = await lost_race(one, other, "t/a")
    own, seen = one.store.own.write, list[list[bytes]]()

    async def write(changes: Sequence[KeyValueChange]) -> int:
        if not seen:
            seen.append([])
            newest = retained("t/a", b"newest")
            await one.retained.keep_first([newest], one.sender)
            assert await one.sender.send_and_wait([newest]) is None
        try:
            return await own(changes)
        finally:
            seen.append(await bodies_kept(one, "t/a"))

    one.store.key_values.write = write  # type: ignore[method-assign]
    await other.retained.order.check(late)
    assert [each for each in seen if each] == [[b"newest"]] * (len(seen) - 1)
    assert len(seen) > 2, "the mending write was refused"


async def test_a_refused_one_is_not_looked_for_in_the_log(doors) -> None:
    one, other = doors
    refusal = EntrepotError(Code.MESSAGE_BODY_TOO_LARGE, "no")
    refused = retained("t/a", b"refused")

    async def sending():
        return [refusal]

    kept = [refused]
    await one.retained.keep_first(kept, one.sender)
    await other.retained.publish([retained("t/a", b"stored")], other.sender)
    assert await one.retained.published([refused], kept, sending()) == [refusal]
    assert await bodies_kept(one, "t/a") == [b"stored"]
