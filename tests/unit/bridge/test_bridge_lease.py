"""The lease of a bridge: one holder at a time, taken over when it ends, given up when it may have been taken."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.message import Message, SystemProperty
from entrepot.gateway.bridge import lease as module
from entrepot.gateway.bridge.errors import LeaseLostError
from entrepot.gateway.bridge.lease import LEASE_MS, MARGIN_MS, BridgeLease
from entrepot.gateway.bridge.origin import MARK, has_come_by, mark_of, store_origin
from tests.support.clock import ManualClock
from tests.support.gateways.members import NamedIdentity
from tests.support.stores.model_store import MemoryStore
from tests.support.waiting import PATIENCE_SECONDS, until


def lease_of(store: MemoryStore, clock: ManualClock, owner: str, name: str = "b") -> BridgeLease:
    return BridgeLease(store.key_values, clock, name, NamedIdentity(owner), lambda: ("connected", 7, ""))


async def test_one_holds_it_until_it_gives_it_up() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    first, second, elsewhere = (
        lease_of(store, clock, "1"),
        lease_of(store, clock, "2"),
        lease_of(store, clock, "2", "bb"),
    )
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    await elsewhere.acquire()  # a name that begins like another is another
    await until(lambda: second.record is not None, "the second has looked")
    assert first.is_held and not waiting.done()
    assert second.record is not None and (second.record.owner, second.record.state) == ("1-1", "connected")
    await first.release()
    await asyncio.wait_for(waiting, PATIENCE_SECONDS)
    assert second.is_held and not first.is_held


async def test_who_waits_is_told_that_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEASE_MS", round(10_000 * PATIENCE_SECONDS))  # its end is not what is waited for
    clock = ManualClock()
    store = MemoryStore(clock)
    first, second = lease_of(store, clock, "1"), lease_of(store, clock, "2")
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    await until(lambda: second.record is not None, "the second has looked")
    await first.release()
    await asyncio.wait_for(waiting, PATIENCE_SECONDS)
    assert second.is_held


async def test_it_is_taken_over_when_it_has_ended_and_its_holder_knew_before() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    first, second = lease_of(store, clock, "1"), lease_of(store, clock, "2")
    await first.acquire()
    clock.advance(LEASE_MS - MARGIN_MS)
    assert not first.is_held, "a margin before others may"
    clock.advance(MARGIN_MS)
    await asyncio.wait_for(second.acquire(), PATIENCE_SECONDS)
    with pytest.raises(LeaseLostError):
        await first.keep()
    await first.release()
    assert second.is_held
    [kept] = await store.key_values.get(["bridge/b"])
    assert kept is not None, "who has lost it does not take it from another"


async def test_a_record_that_cannot_be_read_is_nobodys() -> None:
    store = MemoryStore(ManualClock())
    await store.key_values.write([KeyValueChange("bridge/b", b"{")])
    lease = lease_of(store, ManualClock(), "1")
    await asyncio.wait_for(lease.acquire(), PATIENCE_SECONDS)
    assert lease.is_held and lease.record is not None and lease.record.owner == "1-1"


async def test_a_renewal_that_meets_another_holder_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.0)
    clock = ManualClock()
    store = MemoryStore(clock)
    first = lease_of(store, clock, "1")
    await first.acquire()
    await store.key_values.write([KeyValueChange("bridge/b", b'{"owner":"2","until_ms":9999999999999}')])
    with pytest.raises(LeaseLostError, match="another gateway"):
        await first.keep()
    assert not first.is_held


async def test_a_store_that_does_not_answer_costs_the_lease_only_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.0)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    clock = ManualClock()
    store = MemoryStore(clock)
    lease = lease_of(store, clock, "1")
    await lease.acquire()
    tries = 0

    async def away(changes: object) -> int:
        nonlocal tries
        tries += 1
        clock.advance(1000)
        raise EntrepotError(Code.UNAVAILABLE, "away")

    monkeypatch.setattr(store.key_values, "write", away)
    with pytest.raises(LeaseLostError, match="in time"):
        await lease.keep()
    assert tries == (LEASE_MS - MARGIN_MS) // 1000


async def test_a_store_has_one_origin_and_its_marks_are_known_again() -> None:
    store = MemoryStore(ManualClock())
    assert await store_origin(store.key_values, "x") == await store_origin(store.key_values, "y") == "x"
    mark = mark_of("x", "old")

    def message(*properties: tuple[str, str], came_by: str = "") -> Message:
        system = {SystemProperty.BRIDGE: came_by} if came_by else {}
        return Message("t", b"", properties=properties, system=system)

    assert has_come_by(message(mark), "old", mark)
    assert has_come_by(message(("ce_" + MARK, mark[1])), "old", mark)
    assert has_come_by(message(came_by="old"), "old", mark)
    assert not has_come_by(message(mark_of("x", "new"), mark_of("y", "old")), "old", mark)
    assert not has_come_by(message(came_by="new"), "old", mark)
