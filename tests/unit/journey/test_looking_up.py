"""Look-ups by names, and their limits; the names of gateways."""

from __future__ import annotations

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.topic import Topic
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.messaging import provenance
from entrepot.gateway.messaging.provenance import ORIGINS_KEY, Provenance, gateway_of, origins_in
from entrepot.gateway.operations.journey import looking_up
from entrepot.gateway.operations.journey.looking_up import By, Found, Wanted, looked_up
from tests.support.clock import ManualClock
from tests.support.stores.model_store.store import MemoryStore


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(clock: ManualClock) -> MemoryStore:
    made = MemoryStore(clock)
    await made.topology.put_topics([Topic("a", queues=1), Topic("b", queues=1)])
    return made


async def send(store: MemoryStore, clock: ManualClock, topic: str, number: int, body: bytes = b"x") -> None:
    system = {SystemProperty.CORRELATION_ID: f"c{number}".encode()}
    clock.advance(1)
    message = Message(topic, body, queue_id=0, keys=(f"k{number}",), message_id=b"id%d" % number, system=system)
    assert await store.messages.append([message]).wait() is None


async def look(store: MemoryStore, by: By, name: str, *topics: str, now: float = 0.0) -> Found:
    return await looked_up(store.finder, Wanted(by, name, topics), "t", lambda: now)


async def test_a_key_is_looked_for_in_all_topics(store: MemoryStore, clock: ManualClock):
    await send(store, clock, "a", 1)
    await send(store, clock, "b", 1)
    found = await look(store, By.KEY, "k1", "a", "b", "deleted")
    assert [message.topic for message in found.messages] == ["b", "a"], "the newest first"
    assert found.searched is not None and (found.searched.topics, found.searched.messages) == (3, 2)
    with pytest.raises(EntrepotError) as refused:
        await look(store, By.KEY, "k1", "deleted")
    assert refused.value.code is Code.TOPIC_NOT_FOUND


async def test_what_has_no_index_is_read_up_to_a_limit(
    store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    for number in range(10):
        await send(store, clock, "a", number, b"12345")
    newest = clock.now_ms()
    whole = await look(store, By.CORRELATION, "c0", "a")
    assert [message.message_id for message in whole.messages] == [b"id0"]
    assert whole.searched is not None and whole.searched.is_complete
    assert (whole.searched.messages, whole.searched.bytes, whole.searched.until_ms) == (10, 50, newest - 9)
    monkeypatch.setattr(looking_up, "PAGE", 2)
    for limit, value in (("MAX_SCANNED", 4), ("MAX_SCANNED_BYTES", 20)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(looking_up, limit, value)
            cut = await look(store, By.CORRELATION, "c0", "a")
            assert cut.messages == [] and cut.searched is not None and not cut.searched.is_complete
            assert (cut.searched.messages, cut.searched.until_ms) == (4, newest - 3)
            assert (await look(store, By.CORRELATION, "c9", "a")).messages, "the newest are found"


async def test_a_look_up_ends_in_time(store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch):
    await send(store, clock, "a", 1)
    moments = iter([0.0, 0.0, 99.0, 99.0])
    monkeypatch.setattr(looking_up, "PAGE", 1)
    await send(store, clock, "a", 2)
    found = await looked_up(store.finder, Wanted(By.CORRELATION, "c1", ("a",)), "t", lambda: next(moments))
    assert found.messages == [] and found.searched is not None and not found.searched.is_complete


async def test_a_gateway_is_known_by_the_ids_that_it_made(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(provenance, "MAX_ORIGINS", 3)
    for number in range(5):
        await Provenance(store, Identity(origin=bytes(5) + bytes([number]))).introduce(f"gw {number}")
    names = [await gateway_of(store, bytes(11) + bytes([number]) + bytes(4)) for number in range(6)]
    assert names == ["", "", "gw_2", "gw_3", "gw_4", ""], "the newest starts"
    assert await gateway_of(store, b"chosen by a producer") == ""
    await Provenance(store, Identity(origin=bytes(5) + b"\x03")).introduce("renamed")
    [kept] = await store.key_values.get([ORIGINS_KEY])
    assert kept is not None and [name for _, name in origins_in(kept.value)] == ["gw_2", "gw_4", "renamed"]
    assert origins_in(b"nonsense") == []


async def test_only_messages_of_traced_topics_are_marked(store: MemoryStore):
    marks = Provenance(store, Identity(origin=bytes(6)))
    assert not marks.topics
    await store.topology.put_topic(Topic("a", queues=1, trace=0.5))
    assert marks.topics == {"a"}
    messages = [Message("a", b""), Message("b", b"")]
    marks.mark(messages, "mqtt", "till\n7", None)
    assert [message.system.get(SystemProperty.TAKEN_IN) for message in messages] == ["mqtt - till\n7", None]
    await store.topology.put_topic(Topic("a", queues=1))
    assert not marks.topics
