"""The sessions of a dead gateway are found by its keys: at a cost that does not grow with sessions that are away."""

from __future__ import annotations

import pytest

from entrepot.domain.key_value import KeyValueChange
from entrepot.gateway.member.lease import ALIVE_SECONDS
from entrepot.gateway.mqtt.sessions.lifecycle import depart
from entrepot.gateway.mqtt.sessions.record import HELD_PREFIX, SESSION_PREFIX, SessionRecord, encode_record, held_key
from entrepot.gateway.mqtt.sessions.sweeper import PAGE
from tests.unit.sessions.conftest import SessionWorld, will

HELD = 450


@pytest.fixture
def world() -> SessionWorld:
    return SessionWorld()


async def _keys_read(world: SessionWorld, away: int) -> int:
    """Keys that a round reads while it sweeps a dead gateway's sessions among those that are away."""
    names = [f"away{number:05}" for number in range(away)]
    for start in range(0, away, 1000):
        some = [
            KeyValueChange(SESSION_PREFIX + name, encode_record(SessionRecord(name, 1, "", 5, "", 0xFFFFFFFF, 1)))
            for name in names[start : start + 1000]
        ]
        await world.store.write(some)
    dead, sweeper = world.gateway("dead"), world.sweeper("here")
    await world.sweeper("dead").member.renew()
    for number in range(HELD):
        await world.opened(dead, f"c{number:03}", will=will(b"w"))
    world.clock.advance(int(ALIVE_SECONDS * 1000) + 1)
    keys, read = world.store.key_values, 0
    get, scan = keys.get, keys.scan

    async def counted_get(wanted):
        nonlocal read
        read += len(wanted)
        return await get(wanted)

    async def counted_scan(prefix, **options):
        nonlocal read
        found = await scan(prefix, **options)
        read += len(found)
        return found

    keys.get, keys.scan = counted_get, counted_scan  # type: ignore[method-assign]
    await sweeper.member.renew()
    world.store.writes.clear()
    await sweeper.sweep()
    assert len(world.wills) == HELD
    assert len(world.store.writes) < 20
    return read


async def test_a_sweep_reads_what_the_gateway_had():
    few, many = await _keys_read(SessionWorld(), 10), await _keys_read(SessionWorld(), 10_000)
    assert many <= few + 10, (few, many)


async def _held(world: SessionWorld, gateway: str) -> list[str]:
    prefix = held_key(gateway, "")
    return [each.key.removeprefix(prefix) for each in await world.store.key_values.scan(prefix)]


async def test_a_gateway_lists_the_sessions_of_its_connections(world: SessionWorld):
    one, other = world.gateway("one"), world.gateway("other")
    session = await world.opened(one, "a")
    ended, fleeting = await world.opened(one, "b"), await world.opened(one, "c", 0)
    assert await _held(world, "one") == ["a", "b", "c"]
    for each in (ended, fleeting):
        depart(each.record, world.clock.now_ms(), keeps_will=False)
        each.end(lambda: None, deletes=not each.record.expiry_seconds)
    await one.journal.settle()
    assert await _held(world, "one") == ["a"]
    await world.opened(one, "a")
    assert await _held(world, "one") == ["a"], "another connection at the same gateway has it"
    depart(session.record, world.clock.now_ms(), keeps_will=False)
    session.end(lambda: None, deletes=False)
    await one.journal.settle()
    assert await _held(world, "one") == ["a"], "what the first one writes late is fenced"
    await world.opened(other, "a")
    assert (await _held(world, "one"), await _held(world, "other")) == ([], ["a"])


async def test_nothing_of_a_dead_gateway_is_left(world: SessionWorld):
    """Keys of sessions that it does not have any more go, too; those sessions are left alone."""
    await world.sweeper("dead").member.renew()
    await world.opened(world.gateway("dead"), "c", will=will(b"w"))
    await world.opened(world.gateway("here"), "d", will=will(b"d"))
    await world.store.write([KeyValueChange(held_key("dead", name), b"") for name in ("d", "nobody")])
    world.clock.advance(int(ALIVE_SECONDS * 1000) + 1)
    sweeper = world.sweeper("here")
    await sweeper.member.renew()
    await sweeper.sweep()
    assert world.wills == [b"w"]
    assert [each.key for each in await world.store.key_values.scan(HELD_PREFIX)] == [
        held_key("here", ""),
        held_key("here", "d"),
    ]


async def test_a_gateway_of_an_earlier_version_is_swept_by_looking_at_all(world: SessionWorld):
    await world.sweeper("dead").member.renew()
    for number in range(PAGE + 3):
        await world.opened(world.gateway("dead"), f"c{number:03}", will=will(b"w"))
    held = await world.store.key_values.scan(held_key("dead", ""))
    await world.store.write([KeyValueChange(each.key, None) for each in held])
    await world.opened(world.gateway("here"), "other", will=will(b"other"))
    world.clock.advance(int(ALIVE_SECONDS * 1000) + 1)
    sweeper = world.sweeper("here")
    await sweeper.member.renew()
    world.store.writes.clear()
    await sweeper.sweep()
    assert world.wills == [b"w"] * (PAGE + 3)
    assert not any(key.startswith(HELD_PREFIX) and key != held_key("dead", "") for w in world.store.writes for key in w)


async def test_a_session_that_comes_to_a_dead_gateway_meanwhile_is_found_by_the_next_sweep(world: SessionWorld):
    """A gateway that does not know of its death takes a client whose key was about to go."""
    silent, gateway = world.sweeper("dead"), world.gateway("dead")
    await silent.member.renew()
    await world.store.write([KeyValueChange(held_key("dead", "late"), b"")])
    world.clock.advance(int(ALIVE_SECONDS * 1000) + 1)
    get = world.store.key_values.get

    async def get_early(keys):
        found = await get(keys)
        if keys == [f"{SESSION_PREFIX}late"]:
            world.store.key_values.get = get
            await world.opened(gateway, "late", will=will(b"late"))
        return found

    world.store.key_values.get = get_early  # type: ignore[method-assign]
    sweeper = world.sweeper("here")
    await sweeper.member.renew()
    await sweeper.sweep()
    assert await _held(world, "dead") == ["late"]
    await silent.member.renew()
    await sweeper.sweep()
    assert (world.dead, world.wills) == (["dead"], [b"late"])


async def test_all_that_is_due_is_one_round_s(world: SessionWorld):
    for number in range(2 * PAGE + 1):
        session = await world.opened(world.gateway("g"), f"c{number:04}", 60)
        depart(session.record, world.clock.now_ms(), keeps_will=False)
        session.end(lambda: None, deletes=False)
    await session._journal.settle()
    world.clock.advance(60_000)
    sweeper = world.sweeper("here")
    await sweeper.member.renew()
    await sweeper.sweep()
    assert await world.store.key_values.scan(SESSION_PREFIX) == []
