"""Many sessions that end or are swept at once: few writes, and one odd session or will hurts no other."""

from __future__ import annotations

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.mqtt.sessions.ending import MAX_TOGETHER
from entrepot.gateway.mqtt.sessions.record import (
    SESSION_PREFIX,
    WILL_PREFIX,
    SessionRecord,
    WillRecord,
    decode_session,
)
from entrepot.gateway.mqtt.sessions.wills import OVERDUE_SECONDS, Wills
from tests.unit.sessions.conftest import SessionWorld, will
from tests.unit.sessions.test_session_sweeper import ALIVE_MS, keys, leave, look


async def test_many_wills_of_a_dead_gateway_are_few_writes(world: SessionWorld) -> None:
    dead, count = world.gateway("dead"), 600
    await world.sweeper("dead").member.renew()
    for number in range(count):
        await world.opened(dead, f"c{number:03d}", 600, will=will(f"c{number:03d}".encode()))
    world.clock.advance(ALIVE_MS + 1)
    world.store.writes.clear()
    await look(world.sweeper("here"))
    assert sorted(world.wills) == [f"c{number:03d}".encode() for number in range(count)]
    assert await keys(world, WILL_PREFIX) == []
    assert len(world.store.writes) < 20
    for found in await world.store.key_values.scan(SESSION_PREFIX, limit=1000):
        record = decode_session(found.value)
        assert (record.owner, record.will, record.disconnected_at_ms) == ("", None, world.clock.now_ms())


async def test_what_is_due_does_not_wait_for_the_dead(world: SessionWorld) -> None:
    """Neither what was due before, nor what becomes due meanwhile."""
    here, dead = world.gateway("here"), world.gateway("dead")
    await world.sweeper("dead").member.renew()
    for number in range(450):
        await world.opened(dead, f"dead{number}", 600, will=will(b"dead"))
    await leave(world, here, "before", delay=1)
    await leave(world, here, "meanwhile", delay=ALIVE_MS // 1000 + 2)
    world.clock.advance(ALIVE_MS + 1000)

    async def publish(record: SessionRecord, out: WillRecord) -> None:
        if not world.wills.count(b"dead"):
            world.clock.advance(1000)
        world.wills.append(out.payload)

    sweeper = world.sweeper("here")
    sweeper.endings.wills = Wills(world.store, world.clock, publish, world.incidents)
    await look(sweeper)
    assert world.wills[0] == b"before"
    assert world.wills.index(b"meanwhile") == 1 + MAX_TOGETHER
    assert world.wills.count(b"dead") == 450


@pytest.mark.parametrize("back", [[0], [7, 8], [0, 31, 63]])
async def test_those_who_come_back_at_that_moment_do_not_hurt_the_others(world: SessionWorld, back: list[int]) -> None:
    gateway = world.gateway("g")
    for number in range(64):
        await leave(world, gateway, f"c{number:02d}", expiry=60, delay=10)
    world.clock.advance(10_000)
    get = world.store.key_values.get

    async def get_late(names):
        found = await get(names)
        if names[0].startswith(SESSION_PREFIX) and len(names) > 1 and back:
            world.store.key_values.get = get
            for number in back:
                await world.opened(gateway, f"c{number:02d}")
        return found

    world.store.key_values.get = get_late  # type: ignore[method-assign]
    await look(world.sweeper("here"))
    assert sorted(world.wills) == [f"c{number:02d}".encode() for number in range(64) if number not in back]
    assert await keys(world, WILL_PREFIX) == []


async def test_a_session_that_cannot_be_written_is_set_aside(world: SessionWorld) -> None:
    """The store refuses it: the others are swept."""
    gateway = world.gateway("g")
    for number in range(5):
        await leave(world, gateway, f"c{number}", expiry=60, delay=10)
    world.clock.advance(10_000)
    own = world.store.own.write

    async def write(changes):
        if any(change.key == f"{SESSION_PREFIX}c3" for change in changes):
            raise EntrepotError(Code.BAD_REQUEST, "odd")
        return await own(changes)

    world.store.key_values.write = write  # type: ignore[method-assign]
    await look(world.sweeper("g"))
    assert sorted(world.wills) == [b"c0", b"c1", b"c2", b"c4"]
    [incident] = world.incidents.last
    assert (incident.part, incident.outcome, incident.place) == ("sessions", Outcome.SET_ASIDE, "c3")


async def test_a_will_that_fails_does_not_hurt_the_others(world: SessionWorld) -> None:
    """It is tried again later, behind the others, as long as it fails."""
    tries: list[bytes] = []

    async def publish(record: SessionRecord, out: WillRecord) -> None:
        tries.append(out.payload)
        if out.payload == b"c1" and tries.count(b"c1") < 3:
            raise ValueError("odd")
        world.wills.append(out.payload)

    for number in range(3):
        await leave(world, world.gateway("g"), f"c{number}", expiry=600, delay=10)
    sweeper = world.sweeper("g")
    sweeper.endings.wills = Wills(world.store, world.clock, publish, world.incidents)
    world.clock.advance(10_000)
    for times, expected in enumerate([[b"c0", b"c2"], [b"c0", b"c2"], [b"c0", b"c2", b"c1"], [b"c0", b"c2", b"c1"]]):
        await look(sweeper)
        await look(sweeper)
        assert world.wills == expected
        assert tries.count(b"c1") == min(times + 1, 3)
        world.clock.advance(int(OVERDUE_SECONDS * 1000))
    assert await keys(world, WILL_PREFIX) == []
    assert [each.client for each in world.incidents.last] == ["c1", "c1"]


async def test_a_will_that_cannot_be_read_goes(world: SessionWorld) -> None:
    await world.store.write([KeyValueChange(f"{WILL_PREFIX}{1:015d}/odd", b"\xc1")])
    await look(world.sweeper("g"))
    assert await keys(world, WILL_PREFIX) == [] and world.wills == []
