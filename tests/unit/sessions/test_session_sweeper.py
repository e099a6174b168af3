"""The sweeper: what comes in time comes once, whoever looks after it, and a client that comes back wins."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.gateway.member import member as module
from entrepot.gateway.member.lease import ALIVE_SECONDS
from entrepot.gateway.member.record import LEASE_PREFIX
from entrepot.gateway.mqtt.sessions.lifecycle import depart
from entrepot.gateway.mqtt.sessions.opening import Sessions
from entrepot.gateway.mqtt.sessions.record import (
    DUE_PREFIX,
    SESSION_PREFIX,
    TAKEN_PREFIX,
    WILL_PREFIX,
    SessionRecord,
    WillRecord,
    decode_session,
)
from entrepot.gateway.mqtt.sessions.sweeper import Sweeper
from entrepot.gateway.mqtt.sessions.wills import OVERDUE_SECONDS, Wills
from tests.support.stores.steps import eventually
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.sessions.conftest import SessionWorld, ended, started, will

ALIVE_MS = int(ALIVE_SECONDS * 1000)


async def leave(
    world: SessionWorld, gateway: Sessions, client_id: str = "c", expiry: int = 600, delay: int = 0
) -> None:
    """A session whose client goes badly, its will still to come if that has a delay."""
    session = await world.opened(gateway, client_id, expiry, will=will(client_id.encode(), delay))
    out = depart(session.record, world.clock.now_ms(), keeps_will=True)
    assert (out is None) is bool(delay)
    done = asyncio.Event()
    session.end(done.set, deletes=not expiry)
    await done.wait()


async def keys(world: SessionWorld, prefix: str) -> list[str]:
    return [each.key.removeprefix(prefix) for each in await world.store.key_values.scan(prefix)]


async def look(sweeper: Sweeper) -> None:
    """A round as the loop makes it."""
    await sweeper.member.renew()
    if sweeper.member.sweeps:
        await sweeper.sweep()


async def whole_round(sweeper: Sweeper) -> None:
    """A look at the leases, which notes outages, and a round."""
    await sweeper.member.look()
    await sweeper.round()


async def test_a_will_and_then_the_end(world: SessionWorld) -> None:
    await leave(world, world.gateway("g"), expiry=60, delay=20)
    sweeper = world.sweeper("g")
    for advance, wills, sessions in ((19_999, [], ["c"]), (1, [b"c"], ["c"]), (39_999, [b"c"], ["c"]), (1, [b"c"], [])):
        world.clock.advance(advance)
        await look(sweeper)
        assert (world.wills, await keys(world, SESSION_PREFIX)) == (wills, sessions)
    assert sweeper.expired == 1
    assert await keys(world, DUE_PREFIX) == []
    assert await keys(world, "session-window/") == []


async def test_a_client_that_came_back_is_left_alone(world: SessionWorld) -> None:
    gateway = world.gateway("g")
    await leave(world, gateway, expiry=60, delay=20)
    assert (await world.opened(gateway)).is_present
    assert await keys(world, DUE_PREFIX) == []
    world.clock.advance(600_000)
    await look(world.sweeper("g"))
    assert (world.wills, await keys(world, SESSION_PREFIX)) == ([], ["c"])


async def test_a_due_key_without_its_session_goes(world: SessionWorld) -> None:
    await world.store.write([KeyValueChange(f"{DUE_PREFIX}{5:015d}/nobody", b"")])
    await look(world.sweeper("g"))
    assert await keys(world, DUE_PREFIX) == []


async def test_one_of_two_gateways_sweeps(world: SessionWorld) -> None:
    """And the other once the first is silent."""
    one, other = world.sweeper("one"), world.sweeper("other")
    await one.member.renew()
    await other.member.renew()
    assert [one.member.sweeps, other.member.sweeps] == [True, False]
    for _ in range(10):
        world.clock.advance(ALIVE_MS // 4)
        await one.member.renew()
        await other.member.renew()
        assert [one.member.sweeps, other.member.sweeps] == [True, False]
    world.clock.advance(ALIVE_MS)
    assert [one.member.sweeps, other.member.sweeps] == [False, False]
    await other.member.renew()
    await one.member.renew()
    assert [one.member.sweeps, other.member.sweeps] == [False, True]


async def test_two_that_sweep_at_once_do_it_once(world: SessionWorld) -> None:
    """Both think they have the lease: sessions end once; nothing is left, and nothing fails."""
    gateway = world.gateway("g")
    for number in range(20):
        await leave(world, gateway, f"c{number}", expiry=10, delay=0)
    one, other = world.sweeper("one"), world.sweeper("other")
    world.clock.advance(10_000)
    await asyncio.gather(one.sweep(), other.sweep())
    assert await keys(world, SESSION_PREFIX) == []
    assert await keys(world, DUE_PREFIX) == []
    assert one.expired + other.expired >= 20


async def test_the_sessions_of_a_dead_gateway(world: SessionWorld) -> None:
    dead, sweeper = world.gateway("dead"), world.sweeper("here")
    await world.sweeper("dead").member.renew()
    await world.opened(dead, "lasting", 600, will=will(b"lasting"))
    await world.opened(dead, "delayed", 600, will=will(b"delayed", 30))
    await world.opened(dead, "fleeting", 0, will=will(b"fleeting"))
    await world.opened(world.gateway("here"), "other", 600, will=will(b"other"))
    world.clock.advance(ALIVE_MS - 1)
    await look(sweeper)
    assert world.wills == []
    world.clock.advance(2)
    await look(sweeper)
    assert sorted(world.wills) == [b"fleeting", b"lasting"]
    assert await keys(world, SESSION_PREFIX) == ["delayed", "lasting", "other"]
    assert await keys(world, LEASE_PREFIX) == ["here"]
    world.clock.advance(30_000)
    await look(sweeper)
    assert sorted(world.wills) == [b"delayed", b"fleeting", b"lasting"]


async def test_nobody_is_dead_who_could_not_say_otherwise(world: SessionWorld) -> None:
    """The store was away for longer than a key lasts: whoever comes first waits for the others."""
    dead, alive, first = world.sweeper("dead"), world.sweeper("alive"), world.sweeper("first")
    for each in (dead, alive, first):
        await whole_round(each)
    world.clock.advance(ALIVE_MS + 1)
    await whole_round(first)
    assert await keys(world, LEASE_PREFIX) == ["alive", "dead", "first"]
    await whole_round(alive)
    for _ in range(5):
        world.clock.advance(1000)
        await whole_round(alive)
        await whole_round(first)
    assert await keys(world, LEASE_PREFIX) == ["alive", "first"]


async def test_who_is_alone_sweeps_at_once(world: SessionWorld) -> None:
    await world.sweeper("before").member.renew()
    await world.opened(world.gateway("before"), "c", 600, will=will())
    await look(world.sweeper("now", is_alone=True))
    assert world.wills == [b"w"]


async def test_a_gateway_that_was_declared_dead_goes_on_under_another_name(world: SessionWorld) -> None:
    """What was opened there after it had been swept is swept too."""
    silent, sweeper = world.sweeper("silent"), world.sweeper("here")
    await silent.member.renew()
    world.clock.advance(ALIVE_MS + 1)
    await look(sweeper)
    assert await keys(world, LEASE_PREFIX) == ["here"]
    await world.opened(world.gateway("silent"), "late", 600, will=will(b"late"))
    await silent.member.renew()
    assert world.dead == ["silent"]
    await silent.member.renew()
    assert sorted(await keys(world, LEASE_PREFIX)) == ["here", "silent", "silent-again"]
    await look(sweeper)
    assert sorted(await keys(world, LEASE_PREFIX)) == ["here", "silent-again"]
    assert world.wills == [b"late"]


async def test_a_gateway_that_is_back_in_the_last_moment_is_not_swept(world: SessionWorld) -> None:
    """It renews its key between the look at it and the verdict."""
    silent, sweeper = world.sweeper("silent"), world.sweeper("here")
    await silent.member.renew()
    await world.opened(world.gateway("silent"), "c", 600, will=will())
    await sweeper.member.renew()
    world.clock.advance(ALIVE_MS + 1)
    scan = world.store.key_values.scan

    async def scan_late(prefix: str, **options):
        found = await scan(prefix, **options)
        if prefix == LEASE_PREFIX:
            await silent.member.renew()
        return found

    world.store.key_values.scan = scan_late  # type: ignore[method-assign]
    await sweeper._sweep_dead()
    assert world.wills == [] and world.dead == []
    assert sorted(await keys(world, LEASE_PREFIX)) == ["here", "silent"]
    [found] = await world.store.key_values.get([SESSION_PREFIX + "c"])
    assert found is not None and decode_session(found.value).owner == "silent"


async def test_a_renewal_whose_outcome_was_not_known(world: SessionWorld) -> None:
    """It was done: the next one takes note, and nobody is declared dead."""
    sweeper = world.sweeper("g")
    await sweeper.member.renew()
    found = await world.store.key_values.scan(LEASE_PREFIX)
    await world.store.write([KeyValueChange(found[0].key, found[0].value)])
    for _ in range(2):
        world.clock.advance(ALIVE_MS // 2)
        await sweeper.member.renew()
    world.clock.advance(ALIVE_MS // 2)
    await look(world.sweeper("other"))
    assert world.dead == []
    assert sorted(await keys(world, LEASE_PREFIX)) == ["g", "other"]


async def test_who_had_the_session_is_told(world: SessionWorld) -> None:
    sweeper = world.sweeper("old")
    await started(sweeper)
    try:
        await world.opened(world.gateway("old"))
        new = await world.opened(world.gateway("new"))
        assert world.taken == [("old", "c", new.record.epoch)]

        async def is_forgotten() -> bool:
            return not await keys(world, f"{TAKEN_PREFIX}old/")

        assert await eventually(is_forgotten)
    finally:
        await ended(sweeper)


async def test_who_leaves_is_swept_at_once(world: SessionWorld) -> None:
    leaving = world.sweeper("leaving")
    await started(leaving)
    await world.opened(world.gateway("leaving"), "c", 600, will=will())
    await ended(leaving)
    await look(world.sweeper("here"))
    assert world.wills == [b"w"]


async def test_a_record_that_cannot_be_read_holds_up_nobody(world: SessionWorld) -> None:
    """Neither in the round of what is due nor in that of the dead; a client that comes gets a new session."""
    await leave(world, world.gateway("g"), "b", expiry=10)
    await world.sweeper("dead").member.renew()
    await world.opened(world.gateway("dead"), "c", 600, will=will())
    await world.store.write(
        [KeyValueChange(f"{SESSION_PREFIX}a", b"\xc1"), KeyValueChange(f"{DUE_PREFIX}{1:015d}/a", b"")]
    )
    world.clock.advance(ALIVE_MS + 10_000)
    await look(world.sweeper("here"))
    assert world.wills == [b"w"]
    assert await keys(world, SESSION_PREFIX) == ["a", "c"]
    assert not (await world.opened(world.gateway("here"), "a")).is_present


# -- wills, whatever happens in the same moment


async def test_two_that_sweep_at_once_publish_each_will_once(world: SessionWorld) -> None:
    for number in range(20):
        await leave(world, world.gateway("g"), f"c{number}", expiry=60, delay=10)
    one, other = world.sweeper("one"), world.sweeper("other")
    world.clock.advance(10_000)
    await asyncio.gather(one.sweep(), other.sweep())
    assert sorted(world.wills) == sorted(f"c{number}".encode() for number in range(20))
    assert await keys(world, WILL_PREFIX) == []


@pytest.mark.parametrize("is_clean", [False, True])
async def test_who_came_back_while_others_were_swept(world: SessionWorld, is_clean: bool) -> None:
    """Its record was read before it came: its will went out when it came, and not once more while it is here."""
    dead, here = world.gateway("dead"), world.gateway("here")
    await world.sweeper("dead").member.renew()
    for client_id in ("a", "b"):
        await world.opened(dead, client_id, 600, will=will(client_id.encode()))
    world.clock.advance(ALIVE_MS + 1)

    async def publish(record: SessionRecord, out: WillRecord) -> None:
        world.wills.append(out.payload)
        if out.payload == b"a":
            await world.opened(here, "b", clean_start=is_clean)

    sweeper = world.sweeper("here")
    sweeper.endings.wills = Wills(world.store, world.clock, publish, world.incidents)
    await look(sweeper)
    assert world.wills == [b"a", b"b"]
    assert (await keys(world, SESSION_PREFIX), await keys(world, WILL_PREFIX)) == (["a", "b"], [])


@pytest.mark.parametrize("who", ["sweeper", "who came back"])
async def test_whoever_was_to_publish_a_will_died(world: SessionWorld, who: str) -> None:
    async def die(record: SessionRecord, out: WillRecord) -> None:
        raise EntrepotError(Code.INTERNAL_ERROR, "it died")

    gateway, dying = world.gateway("g"), world.sweeper("dying")
    await leave(world, gateway, expiry=600, delay=20)
    world.clock.advance(20_000)
    dying.endings.wills = gateway.wills = Wills(world.store, world.clock, die, world.incidents)
    await (dying.sweep() if who == "sweeper" else world.opened(gateway, clean_start=True))
    sweeper = world.sweeper("g", is_alone=True)
    await look(sweeper)
    assert world.wills == [], "somebody may be at it"
    world.clock.advance(int(OVERDUE_SECONDS * 1000))
    await look(sweeper)
    await look(sweeper)
    assert world.wills == [b"c"]


# -- whatever is odd


async def die_badly(world: SessionWorld, count: int, expiry: int = 600) -> None:
    """A gateway that dies with its clients, each with a will."""
    dead = world.gateway("dead")
    await world.sweeper("dead").member.renew()
    for number in range(count):
        await world.opened(dead, f"c{number:04}", expiry, will=will(b"%d" % number))
    world.clock.advance(ALIVE_MS + 1)


async def test_a_long_sweep_keeps_its_leases(world: SessionWorld) -> None:
    """Work of their own renews them: another gateway neither takes it for dead nor sweeps meanwhile."""
    await die_badly(world, 600)
    here, other = world.sweeper("here"), world.sweeper("other")
    await here.member.renew()
    await other.member.renew()
    had: list[bool] = []
    alive: list[bool] = []

    async def publish(record: SessionRecord, out: WillRecord) -> None:
        world.wills.append(out.payload)
        if not len(world.wills) % 100:
            [lease] = await world.store.key_values.get([f"{LEASE_PREFIX}here"])
            alive.append(lease is not None and int(lease.value) >= world.clock.now_ms())
            world.clock.advance(3000)
            await here.member.renew()
            await other.member.renew()
            had.append(other.member.sweeps)

    here.endings.wills = Wills(world.store, world.clock, publish, world.incidents)
    await look(here)
    assert (len(world.wills), had, alive) == (600, [False] * 6, [True] * 6)
    assert sorted(await keys(world, LEASE_PREFIX)) == ["here", "other"]


async def test_a_lease_that_cannot_be_read_is_not_taken_for_dead(world: SessionWorld) -> None:
    await world.store.write([KeyValueChange(f"{LEASE_PREFIX}odd", b"x")])
    await die_badly(world, 2)
    await look(world.sweeper("here"))
    assert len(world.wills) == 2
    assert sorted(await keys(world, LEASE_PREFIX)) == ["here", "odd"]


async def test_a_told_key_that_cannot_be_handled_is_deleted_with_the_others(world: SessionWorld) -> None:
    sweeper = world.sweeper("g")
    await started(sweeper)
    try:
        told = [(f"{TAKEN_PREFIX}g/a", b"7"), (f"{TAKEN_PREFIX}g/b", b"odd"), (f"{TAKEN_PREFIX}g/c", b"8")]
        await world.store.write([KeyValueChange(key, value) for key, value in told])

        async def is_forgotten() -> bool:
            return not await keys(world, f"{TAKEN_PREFIX}g/")

        assert await eventually(is_forgotten)
    finally:
        await ended(sweeper)
    assert world.taken == [("g", "a", 7), ("g", "c", 8)]
    assert [each.place for each in world.incidents.last] == [f"{TAKEN_PREFIX}g/b"]


@pytest.mark.parametrize("prefix", [DUE_PREFIX, WILL_PREFIX])
async def test_a_key_that_tells_no_time_goes(world: SessionWorld, prefix: str) -> None:
    """Those before it and behind it are not held up."""
    await leave(world, world.gateway("g"), expiry=60, delay=20)
    for name in ("odd", "/odd", "~"):
        await world.store.write([KeyValueChange(prefix + name, b"\xc1")])
    world.clock.advance(20_000)
    for _ in range(2):
        await world.sweeper("g", is_alone=True).sweep()
    assert world.wills == [b"c"]
    assert not {"odd", "/odd", "~"}.intersection(await keys(world, prefix))


async def test_a_start_waits_for_the_key_values(world: SessionWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no longer; another error is raised."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    world.store.failures = [(Code.UNAVAILABLE, False)] * 3
    starting = world.sweeper("g")
    await started(starting)
    try:
        assert (await keys(world, LEASE_PREFIX), world.store.failures) == (["g"], [])
    finally:
        await ended(starting)
    world.store.failures = [(Code.STORAGE_FULL, False)]
    with pytest.raises(EntrepotError) as refused:
        await started(world.sweeper("other"))
    assert refused.value.code is Code.STORAGE_FULL


async def test_a_told_session_is_forgotten_once_it_was_let_go(world: SessionWorld) -> None:
    """The gateway that took it over waits for that."""
    old, let_go, asked = world.sweeper("old"), asyncio.Event(), asyncio.Event()

    async def taken(name: str, epoch: int) -> None:
        asked.set()
        await let_go.wait()

    old._on_taken = taken
    await started(old)
    try:
        await world.store.write([KeyValueChange(f"{TAKEN_PREFIX}old/c", b"7")])
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asked.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert await keys(world, f"{TAKEN_PREFIX}old/") == ["c"]
        let_go.set()

        async def is_forgotten() -> bool:
            return not await keys(world, f"{TAKEN_PREFIX}old/")

        assert await eventually(is_forgotten)
    finally:
        await ended(old)
