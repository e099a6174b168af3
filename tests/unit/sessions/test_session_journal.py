"""The journal: nothing that waits for a record happens before it is durable, and nothing at all once it is fenced."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.mqtt.sessions import journal
from entrepot.gateway.mqtt.sessions.lifecycle import depart
from entrepot.gateway.mqtt.sessions.record import SESSION_PREFIX, WINDOW_PREFIX, SubscriptionRecord, decode_session
from entrepot.gateway.mqtt.sessions.session import Session
from tests.support.stores.replaced import replaced
from tests.support.waiting import until
from tests.unit.sessions.conftest import SessionWorld


async def record_in(world: SessionWorld, client_id: str = "c"):
    [found] = await world.store.key_values.get([SESSION_PREFIX + client_id])
    return None if found is None else decode_session(found.value)


async def test_callbacks_come_in_order_and_after_the_write(world: SessionWorld) -> None:
    gateway = world.gateway("g")
    session = await world.opened(gateway)
    told: list[int] = []
    release, begun = asyncio.Event(), asyncio.Event()
    write = world.store.key_values.write

    async def slow(changes):
        begun.set()
        await release.wait()
        return await write(changes)

    world.store.key_values = replaced(world.store.key_values, write=slow)
    for number in range(5):
        session.after_durable(partial(told.append, number), window=number % 2 == 0, record=number == 3)
    await begun.wait()
    for number in range(5, 8):
        session.after_durable(partial(told.append, number), window=True)
    assert told == []
    release.set()
    await gateway.journal.settle()
    assert told == list(range(8))


async def test_many_sessions_are_one_write(world: SessionWorld) -> None:
    gateway = world.gateway("g")
    sessions = [await world.opened(gateway, f"c{number}") for number in range(50)]
    world.store.writes.clear()
    told: list[int] = []
    for number, session in enumerate(sessions):
        session.after_durable(partial(told.append, number), window=True)
    await gateway.journal.settle()
    assert told == list(range(50))
    assert len(world.store.writes) == 1


@pytest.mark.parametrize("fenced", [{0}, {7}, {31}, {3, 4, 20}])
async def test_a_fenced_one_does_not_stop_the_others(world: SessionWorld, fenced: set[int]) -> None:
    here, there = world.gateway("here"), world.gateway("there")
    sessions = [await world.opened(here, f"c{number}") for number in range(32)]
    told: list[int] = []
    lost: list[int] = []
    for number, session in enumerate(sessions):
        session.on_fenced = partial(lost.append, number)
        if number in fenced:
            await world.opened(there, f"c{number}")
        session.after_durable(partial(told.append, number), window=True)
    await here.journal.settle()
    assert set(told) == set(range(32)) - fenced
    assert set(lost) == fenced
    for number in fenced:
        record = await record_in(world, f"c{number}")
        assert record is not None and record.owner == "there"
        sessions[number].after_durable(partial(told.append, -1), window=True)
    await here.journal.settle()
    assert -1 not in told


async def test_one_that_cannot_be_written_does_not_stop_the_others(world: SessionWorld) -> None:
    """Its record is larger than a value may be."""
    gateway = world.gateway("g")
    sessions = [await world.opened(gateway, f"c{number}") for number in range(9)]
    sessions[4].record.subscriptions = [SubscriptionRecord("x" * 60_000) for _ in range(20)]
    told: list[int] = []
    lost: list[int] = []
    reasons: list[EntrepotError] = []
    for number, session in enumerate(sessions):
        session.on_fenced = partial(lost.append, number)
        session.on_refused = reasons.append
        session.after_durable(partial(told.append, number), record=True)
    await gateway.journal.settle()
    assert (set(told), lost) == (set(range(9)) - {4}, []), "nobody took it"
    assert [reason.code for reason in reasons] == [Code.BAD_REQUEST] and "session/c4" in reasons[0].message
    assert sessions[4].is_fenced, "nothing more of it is written"


async def test_two_of_one_name_in_one_batch(world: SessionWorld) -> None:
    """An old connection's and a new one's: the old one is fenced, nobody else suffers."""
    gateway = world.gateway("g")
    old, other = await world.opened(gateway), await world.opened(gateway, "other")
    new = await world.opened(gateway)
    told: list[str] = []
    lost: list[str] = []
    for name, session in (("other", other), ("old", old), ("new", new)):
        session.on_fenced = partial(lost.append, name)
        session.after_durable(partial(told.append, name), window=True)
    await gateway.journal.settle()
    assert (sorted(told), lost) == (["new", "other"], ["old"])


@pytest.mark.parametrize("is_done", [False, True])
async def test_an_outcome_that_is_not_known(world: SessionWorld, is_done: bool) -> None:
    """The write is tried again; if it had been done, it is taken for what it is."""
    gateway = world.gateway("g")
    session, other = await world.opened(gateway), await world.opened(gateway, "other")
    told: list[str] = []
    lost: list[str] = []
    world.store.failures = [(Code.UNAVAILABLE, is_done)]
    session.record.subscriptions = [SubscriptionRecord("a/#")]
    for each in (session, other):
        each.on_fenced = partial(lost.append, each.name)
        each.after_durable(partial(told.append, each.name), record=True)
    await gateway.journal.settle()
    session.after_durable(partial(told.append, "more"), window=True)
    await gateway.journal.settle()
    assert (sorted(told), lost) == (["c", "more", "other"], [])
    record = await record_in(world)
    assert record is not None and record.subscriptions == [SubscriptionRecord("a/#")]


@pytest.mark.parametrize("is_done", [False, True])
async def test_an_end_whose_outcome_is_not_known(world: SessionWorld, is_done: bool) -> None:
    gateway = world.gateway("g")
    session = await world.opened(gateway)
    world.store.failures = [(Code.UNAVAILABLE, is_done)]
    ended: list[bool] = []
    depart(session.record, world.clock.now_ms(), keeps_will=False)
    session.end(lambda: ended.append(True), deletes=True)
    await gateway.journal.settle()
    assert ended == [True]
    assert await world.store.key_values.get([SESSION_PREFIX + "c", WINDOW_PREFIX + "c"]) == [None, None]


async def test_a_late_write_does_not_adopt_a_session_that_began_anew(world: SessionWorld) -> None:
    """Another gateway took the session and ended it, then a third made one of the same name."""
    here, there = world.gateway("here"), world.gateway("there")
    old = await world.opened(here)
    lost: list[bool] = []
    told: list[bool] = []
    old.on_fenced = partial(lost.append, True)
    world.clock.advance(1)
    taken = await world.opened(there)
    depart(taken.record, world.clock.now_ms(), keeps_will=False)
    taken.end(lambda: None, deletes=True)
    await there.journal.settle()
    new = await world.opened(there)
    assert not new.is_present
    old.after_durable(partial(told.append, True), record=True, window=True)
    await here.journal.settle()
    assert (lost, told) == ([True], [])


async def test_a_store_that_has_failed_ends_all(world: SessionWorld) -> None:
    gateway = world.gateway("g")
    session = await world.opened(gateway)
    lost: list[bool] = []
    told: list[bool] = []
    session.on_refused = lambda reason: lost.append(reason.code is Code.UNAVAILABLE)
    failure = EntrepotError(Code.UNAVAILABLE, "for good")
    world.store.condition = replaced(world.store.condition, failure=failure)
    world.store.failures = [(Code.UNAVAILABLE, False)]
    session.after_durable(partial(told.append, True), window=True)
    await gateway.journal.settle()
    assert (lost, told) == ([True], [])


async def test_what_nobody_waits_for_goes_with_the_next_write(world: SessionWorld) -> None:
    gateway = world.gateway("g")
    session = await world.opened(gateway)
    world.store.writes.clear()
    session.note_finished()
    told: list[bool] = []
    session.after_durable(partial(told.append, True), window=True)
    await gateway.journal.settle()
    assert len(world.store.writes) == 1 and told == [True]
    session.note_finished()
    await until(lambda: len(world.store.writes) == 2, "and by itself a little later")


async def test_a_session_that_nobody_read_for_stays_where_it_was(world: SessionWorld) -> None:
    gateway = world.gateway("g")
    first = await world.opened(gateway)
    first.positions = lambda: ({"t": {0: 17}}, {"$replay/x": {"t": {0: 3}}})
    first.moved("", "u", 1, 5)
    await _left(world, first)
    second = await world.opened(gateway)
    await _left(world, second)
    third = await world.opened(gateway)
    assert third.restored_cursors("") == {("t", 0): 17}
    assert third.restored_cursors("$replay/x") == {("t", 0): 3}


async def _left(world: SessionWorld, session: Session) -> None:
    done = asyncio.Event()
    depart(session.record, world.clock.now_ms(), keeps_will=False)
    session.end(done.set, deletes=False)
    await done.wait()


async def test_a_session_of_another_user_is_refused(world: SessionWorld) -> None:
    gateway = world.gateway("g")
    await world.opened(gateway, user="alice")
    with pytest.raises(EntrepotError) as refused:
        await world.opened(gateway, user="mallory", clean_start=True)
    assert refused.value.code == Code.FORBIDDEN
    record = await record_in(world)
    assert record is not None and record.user == "alice"


# -- faults of our own


@pytest.mark.parametrize("where", ["changes", "told", "adopting"])
async def test_a_session_that_fails_is_set_aside(world: SessionWorld, where: str) -> None:
    """The others are written, and it is ended: nobody can say what its record would be."""
    gateway = world.gateway("g")
    sessions = [await world.opened(gateway, f"c{number}") for number in range(9)]
    told: list[int] = []
    reasons: list[EntrepotError] = []

    def odd(*_: object) -> Any:
        raise ValueError("odd")

    failing = sessions[4]
    failing.on_refused = reasons.append
    ended: list[bool] = []
    if where == "changes":
        failing.positions = odd
    elif where == "adopting":
        [found] = await world.store.key_values.get([SESSION_PREFIX + "c4"])
        assert found is not None
        await world.store.own.write([KeyValueChange(found.key, b"\xc1")])
    for number, session in enumerate(sessions):
        session.after_durable(odd if (where, number) == ("told", 4) else partial(told.append, number), record=True)
    failing._at_end = partial(ended.append, True)
    await gateway.journal.settle()
    assert sorted(told) == [0, 1, 2, 3, 5, 6, 7, 8]
    assert [reason.code for reason in reasons] == [Code.INTERNAL_ERROR]
    assert failing.is_fenced and ended == [True], "who waits for its end is told"
    assert [(each.part, each.place) for each in world.incidents.last] == [("sessions", "c4")]
    sessions[0].after_durable(partial(told.append, 10), window=True)
    await gateway.journal.settle()
    assert told[-1] == 10


async def test_an_end_that_fails_hurts_no_other(world: SessionWorld) -> None:
    gateway = world.gateway("g")
    failing, other = await world.opened(gateway, "failing"), await world.opened(gateway, "other")

    def odd(*_: object) -> Any:
        raise ValueError("odd")

    failing.positions = failing.on_refused = odd
    told: list[bool] = []
    for session in (failing, other):
        session.after_durable(partial(told.append, True), record=True)
    await gateway.journal.settle()
    assert told == [True] and [each.place for each in world.incidents.last] == ["failing", "failing"]


async def test_a_look_that_fails_is_tried_again(world: SessionWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conflict is looked at until the store tells whose it is, whatever it raises meanwhile."""
    monkeypatch.setattr(journal, "AGAIN_SECONDS", 0.001)
    here, there = world.gateway("here"), world.gateway("there")
    session = await world.opened(here)
    await world.opened(there)
    get, faults = world.store.key_values.get, [ValueError("odd"), EntrepotError(Code.UNAVAILABLE, "away")]

    async def failing(keys):
        if faults:
            raise faults.pop()
        return await get(keys)

    world.store.key_values = replaced(world.store.key_values, get=failing)
    lost: list[bool] = []
    session.on_fenced = partial(lost.append, True)
    session.after_durable(lambda: None, window=True)
    await here.journal.settle()
    assert (lost, faults) == ([True], [])


async def test_a_write_that_fails_oddly_hurts_the_odd_one_alone(world: SessionWorld) -> None:
    """By an error that no store should raise: nobody waits for ever, and what comes later is written."""
    gateway = world.gateway("g")
    sessions = [await world.opened(gateway, f"c{number}") for number in range(9)]
    write = world.store.key_values.write

    async def odd(changes):
        if any(change.key == f"{WINDOW_PREFIX}c4" for change in changes):
            raise ValueError("odd")
        return await write(changes)

    world.store.key_values = replaced(world.store.key_values, write=odd)
    told: list[int] = []
    for number, session in enumerate(sessions):
        session.after_durable(partial(told.append, number), window=True)
    await gateway.journal.settle()
    assert set(told) == set(range(9)) - {4}
    assert sessions[4].is_fenced and not sessions[5].is_fenced
    assert world.incidents.counts == {(journal.PART, Outcome.SET_ASIDE): 1}
    sessions[5].after_durable(partial(told.append, 9), window=True)
    await gateway.journal.settle()
    assert told[-1] == 9
    assert not background().faults
