"""Many cursors of one session: they have parts of their own, and a limit that is told."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import MAX_WRITE_BYTES, KeyValueChange
from entrepot.gateway.mqtt.sessions import cursors as cursors_module
from entrepot.gateway.mqtt.sessions.cursors import MAX_INLINE, MAX_PARTS_BYTES, join, split
from entrepot.gateway.mqtt.sessions.lifecycle import depart
from entrepot.gateway.mqtt.sessions.opening import Sessions
from entrepot.gateway.mqtt.sessions.positions import LEAST_MOVED, MOST_MOVED
from entrepot.gateway.mqtt.sessions.record import (
    CURSORS_PREFIX,
    SESSION_PREFIX,
    WINDOW_PREFIX,
    Cursors,
    SessionRecord,
    decode_session,
    decode_window,
)
from entrepot.gateway.mqtt.sessions.session import Session
from entrepot.protocols.mqtt.delivery_window import DeliveryWindow
from tests.unit.sessions.conftest import SessionWorld
from tests.unit.sessions.test_session_sweeper import keys, look

MANY: Cursors = {f"plant-{number:05d}": {0: number, 1: number * 7, 2: 3, 10_000: 9} for number in range(2500)}
"""10,000 of them, at two brokers."""


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few cursors have many parts."""
    monkeypatch.setattr(cursors_module, "CURSORS_PER_PART", 4096)


async def written(world: SessionWorld, gateway: Sessions, session: Session) -> list[list[str]]:
    """Write the session's record; return the keys of the writes."""
    world.store.writes.clear()
    session.after_durable(lambda: None, record=True)
    await gateway.journal.settle()
    return world.store.writes


async def left(world: SessionWorld, gateway: Sessions, session: Session, *, deletes: bool = False) -> None:
    depart(session.record, world.clock.now_ms(), keeps_will=True)
    session.end(lambda: None, deletes=deletes)
    await gateway.journal.settle()


def flat(cursors: Cursors) -> dict[tuple[str, int], int]:
    return {(topic, queue_id): at for topic, queues in cursors.items() for queue_id, at in queues.items()}


async def test_many_cursors_come_back_as_they_were(world: SessionWorld) -> None:
    gateway = world.gateway("g")
    session = await world.opened(gateway)
    replays = {f"$replay/earliest/{number}": MANY for number in range(3)} | {"$replay/earliest/none": {}}
    session.positions = lambda: (MANY, replays)
    [write] = await written(world, gateway, session)
    parts = [key for key in write if key.startswith(CURSORS_PREFIX)]
    assert len(parts) == 16, "40,000 cursors, 4096 in a part"
    [found] = await world.store.key_values.get([SESSION_PREFIX + "c"])
    assert found is not None and len(found.value) < 1000
    await left(world, gateway, session)
    again = await world.opened(gateway)
    assert again.is_present
    assert again.restored_cursors("") == flat(MANY)
    for replay, cursors in replays.items():
        assert again.restored_cursors(replay) == flat(cursors)
    await left(world, gateway, again)
    third = await world.opened(world.gateway("other"))
    assert third.restored_cursors("") == flat(MANY), "nobody read for the second one"


async def test_only_what_changed_is_written(world: SessionWorld) -> None:
    gateway = world.gateway("g")
    session = await world.opened(gateway)
    session.positions = lambda: (MANY, {})
    [first] = await written(world, gateway, session)
    [same] = await written(world, gateway, session)
    moved = {**MANY, "plant-00007": {0: 1}}
    session.positions = lambda: (moved, {})
    [one] = await written(world, gateway, session)
    assert [sum(key.startswith(CURSORS_PREFIX) for key in write) for write in (first, same, one)] == [4, 0, 1]
    await left(world, gateway, session)
    assert (await world.opened(gateway)).restored_cursors("") == flat(moved)


async def test_few_again_are_in_the_record(world: SessionWorld) -> None:
    gateway = world.gateway("g")
    session = await world.opened(gateway)
    few = {"t": dict.fromkeys(range(MAX_INLINE), 3)}
    for cursors, parts in ((MANY, 4), (few, 0), (few | {"u": {0: 1}}, 1), ({}, 0)):
        session.positions = lambda cursors=cursors: (cursors, {})  # type: ignore[misc]
        await written(world, gateway, session)
        assert len(await keys(world, CURSORS_PREFIX)) == parts
        await left(world, gateway, session)
        session = await world.opened(gateway)
        assert session.restored_cursors("") == flat(cursors)


@pytest.mark.parametrize("how", ["client", "clean start", "operator", "sweeper", "not kept"])
async def test_nothing_is_left_of_a_session_that_ended(world: SessionWorld, how: str) -> None:
    gateway = world.gateway("g")
    session = await world.opened(gateway)
    session.positions = lambda: (MANY, {})
    await written(world, gateway, session)
    if how == "client":
        await left(world, gateway, session, deletes=True)
    else:
        await left(world, gateway, session)
    if how == "clean start":
        assert not (await world.opened(gateway, clean_start=True)).is_present
    elif how == "operator":
        await world.operations().end("c")
    elif how == "sweeper":
        world.clock.advance(600_000)
        await look(world.sweeper("g"))
    elif how == "not kept":
        again = await world.opened(gateway, expiry=0)
        assert again.restored_cursors("") == flat(MANY)
        await left(world, gateway, again, deletes=True)
    assert await keys(world, CURSORS_PREFIX) == []


@pytest.mark.parametrize("is_done", [False, True])
async def test_a_write_of_unknown_outcome(world: SessionWorld, is_done: bool) -> None:
    """Whether it was done or not: the next one leaves what belongs together."""
    gateway = world.gateway("g")
    session = await world.opened(gateway)
    session.positions = lambda: (MANY, {})
    await written(world, gateway, session)
    fewer = dict(list(MANY.items())[:600])
    session.positions = lambda: (fewer, {})
    world.store.failures = [(Code.OUTCOME_UNKNOWN, is_done)]
    await written(world, gateway, session)
    assert len(await keys(world, CURSORS_PREFIX)) == 1
    await left(world, gateway, session)
    assert (await world.opened(gateway)).restored_cursors("") == flat(fewer)


async def test_positions_that_are_again_as_before_a_write_of_unknown_outcome(world: SessionWorld) -> None:
    """The parts of that write lie in the store: those of the write before are written anew."""
    gateway = world.gateway("g")
    session = await world.opened(gateway)
    session.positions = lambda: (MANY, {})
    await written(world, gateway, session)
    later: list[tuple[Cursors, dict[str, Cursors]]] = [
        (MANY, {}),
        ({topic: {0: 1, 1: 2, 2: 3, 3: 4} for topic in MANY}, {}),
    ]
    session.positions = lambda: later.pop() if len(later) > 1 else later[0]
    world.store.failures = [(Code.OUTCOME_UNKNOWN, True)]
    await written(world, gateway, session)
    await left(world, gateway, session)
    assert (await world.opened(gateway)).restored_cursors("") == flat(MANY)


async def test_a_part_that_is_lost_costs_its_topics_alone(world: SessionWorld) -> None:
    gateway = world.gateway("g")
    session = await world.opened(gateway)
    session.positions = lambda: (MANY, {})
    await written(world, gateway, session)
    await left(world, gateway, session)
    one, other, *_ = [CURSORS_PREFIX + each for each in await keys(world, CURSORS_PREFIX)]
    await world.store.own.write([KeyValueChange(one, b"odd"), KeyValueChange(other, None)])
    again = await world.opened(gateway)
    kept = again.restored_cursors("")
    assert again.is_present and 2500 < len(kept) < 7500 and kept.items() <= flat(MANY).items()


async def test_a_limit_is_told_by_its_own_name(world: SessionWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session keeps its last positions, and its end is written."""
    gateway = world.gateway("g")
    session = await world.opened(gateway)
    session.positions = lambda: ({"t": {0: 17}}, {})
    await written(world, gateway, session)
    monkeypatch.setattr(cursors_module, "MAX_PARTS_BYTES", 12_500)
    reasons: list[EntrepotError] = []
    lost: list[None] = []
    session.on_refused, session.on_fenced = reasons.append, lambda: lost.append(None)
    session.positions = lambda: (MANY, {})
    session.window = DeliveryWindow(10)
    session.moved("", "t", 0, 18)
    for _ in range(2):
        await written(world, gateway, session)
    assert [reason.code for reason in reasons] == [Code.STORAGE_FULL] and not lost
    assert "10000 message queues" in reasons[0].message
    await left(world, gateway, session)
    [found] = await world.store.key_values.get([SESSION_PREFIX + "c"])
    assert found is not None and decode_session(found.value).owner == ""
    assert (await world.opened(gateway)).restored_cursors("") == {("t", 0): 18}


def test_the_limit_is_far_away() -> None:
    """10,000 topics at 3 brokers, with 4 queues each, take a tenth of it: places that nothing can shorten."""
    record = SessionRecord("c", 1, "g", 5, "", 600, 1)
    record.cursors = {
        f"factory-{topic * 7919 % 100_003:06d}": {
            broker * 10_000 + queue: (topic * 48_271 + broker * 977 + queue * 131) % 1_000_003
            for broker in range(3)
            for queue in range(4)
        }
        for topic in range(10_000)
    }
    record.made = {topic: {0: 1 << 30, 1: 1 << 31, 2: 1 << 32} for topic in record.cursors}
    stored, parts = split(record)
    assert stored.cursors == {} and stored.parts == len(parts) == 32
    assert 10 * sum(map(len, parts)) < MAX_PARTS_BYTES < MAX_WRITE_BYTES


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.dictionaries(st.integers(0, 70_000), st.integers(-(2**50), 2**50), min_size=1, max_size=9),
        max_size=9,
    ),
    st.dictionaries(
        st.text(max_size=5),
        st.dictionaries(st.text(max_size=3), st.dictionaries(st.integers(0, 99), st.integers(0, 9), min_size=1)),
        max_size=3,
    ),
)
def test_what_is_split_is_joined(cursors: Cursors, replays: dict[str, Cursors]) -> None:
    record = SessionRecord("c", 1, "g", 5, "", 600, 1, cursors=cursors, replays=replays)
    record.cursors = record.cursors | {"many": dict.fromkeys(range(5, 6 + MAX_INLINE), 1)}
    record.made = {topic: {0: 5, 3: 7} for topic in record.cursors}
    stored, parts = split(record)
    assert stored.parts == len(parts) == 1
    for part in parts:
        join(stored, part)
    assert msgspec.structs.replace(stored, parts=0) == record


# -- topics that are made anew


async def test_a_topic_that_was_made_anew_is_read_from_its_beginning(world: SessionWorld) -> None:
    gateway = world.gateway("g")
    world.numbers = {("t", 0): 5, ("t", 1): 8, ("u", 0): 7}
    session = await world.opened(gateway)
    session.positions = lambda: ({"t": {0: 40, 3: 41, 10_000: 42}, "u": {0: 43}}, {"$replay/x": {"t": {0: 44}}})
    await written(world, gateway, session)
    session.moved("", "u", 1, 50)
    await written(world, gateway, session)
    await left(world, gateway, session)
    world.numbers |= {("t", 0): 6}
    again = await world.opened(gateway)
    assert again.restored_cursors("") == {("t", 0): 0, ("t", 3): 0, ("t", 10_000): 42, ("u", 0): 43}
    assert again.restored_cursors("$replay/x") == {("t", 0): 0}
    assert (again.number_of("t", 3), again.number_of("t", 10_001), again.number_of("v", 0)) == (5, 8, 0)
    world.numbers = {}
    assert again.restored_cursors("")["t", 0] == 40, "its broker is away: nobody can say"


async def test_what_moved_knows_its_topic(world: SessionWorld) -> None:
    """A gateway that dies has written the window alone."""
    gateway = world.gateway("g")
    world.numbers = {("t", 0): 5}
    session = await world.opened(gateway)
    session.positions = lambda: ({"t": {0: 40, 1: 41}}, {})
    await written(world, gateway, session)
    session.moved("", "t", 0, 60)
    session.moved("", "n", 0, 7)
    session.window = DeliveryWindow(10)
    session.after_durable(lambda: None, window=True)
    await gateway.journal.settle()
    [found] = await world.store.key_values.get([WINDOW_PREFIX + "c"])
    assert found is not None and decode_window(found.value).moved == {"t": {0: 60}, "n": {0: 7}}
    for number, expected in ((5, {("t", 0): 60, ("t", 1): 41, ("n", 0): 7}), (6, {("t", 0): 0, ("t", 1): 0})):
        world.numbers = {("t", 0): number}
        again = await world.opened(world.gateway("other"))
        assert again.restored_cursors("").items() >= expected.items()


async def test_a_topic_made_anew_under_a_session_is_written_at_once(world: SessionWorld) -> None:
    gateway = world.gateway("g")
    world.numbers = {("t", 0): 5}
    session = await world.opened(gateway)
    session.positions = lambda: ({"t": {0: 40, 1: 41}}, {})
    await written(world, gateway, session)
    session.moved("", "t", 1, 42)
    world.numbers = {("t", 0): 6}
    session.positions = lambda: ({"t": {0: 3, 1: 2}}, {})
    session.moved("", "t", 0, 3)
    world.store.writes.clear()
    session.after_durable(lambda: None, window=True)
    await gateway.journal.settle()
    assert SESSION_PREFIX + "c" in world.store.writes[0]
    again = await world.opened(world.gateway("other"))
    assert again.restored_cursors("") == {("t", 0): 3, ("t", 1): 2}


async def test_a_number_that_is_not_told_now_stays(world: SessionWorld) -> None:
    gateway = world.gateway("g")
    world.numbers = {("t", 0): 5}
    session = await world.opened(gateway)
    session.positions = lambda: ({"t": {0: 40}}, {})
    await written(world, gateway, session)
    world.numbers = {}
    await written(world, gateway, session)
    await left(world, gateway, session)
    world.numbers = {("t", 0): 6}
    assert (await world.opened(gateway)).restored_cursors("") == {("t", 0): 0}


@pytest.mark.parametrize(
    ("queues", "most"), [(0, LEAST_MOVED), (4096, LEAST_MOVED), (10_000, 400), (1_000_000, MOST_MOVED)]
)
async def test_the_window_holds_what_moved_up_to_a_limit(world: SessionWorld, queues: int, most: int) -> None:
    gateway = world.gateway("g")
    session = await world.opened(gateway)
    session.positions = lambda: ({"t": dict.fromkeys(range(queues), 5)}, {})
    await written(world, gateway, session)
    for number in range(most):
        assert not session._positions.move("", f"topic-{number}", 0, 1)
    assert not session._positions.move("", "topic-0", 0, 2), "again"
    assert session._positions.move("", "one more", 0, 1)
