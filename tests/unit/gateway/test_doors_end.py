"""The end of a gateway's doors: a door that fails, or never ends, takes nothing from the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from entrepot.domain.key_value import KeyValueChange
from entrepot.gateway import app
from entrepot.gateway.app import Gateway
from entrepot.gateway.door.door import Door, Work
from entrepot.gateway.door.kind import door_kinds
from entrepot.gateway.http.door import HttpDoor
from entrepot.gateway.member.record import DECLARED_DEAD, LEASE_PREFIX, RECORD_PREFIX, SWEEPER_KEY
from entrepot.gateway.settings import load_settings
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.waiting import PATIENCE_SECONDS


class Faulty(Door):
    """Fails in every phase, or never ends one."""

    name = "faulty"

    def __init__(self, *, hangs: bool) -> None:
        self._hangs, self.phases = hangs, list[str]()

    async def _phase(self, name: str) -> None:
        self.phases.append(name)
        if self._hangs:
            await asyncio.Event().wait()
        raise RuntimeError(name)

    async def end_waiting(self, until: float) -> None:
        await self._phase("end_waiting")

    async def stop_accepting(self, until: float) -> None:
        await self._phase("stop_accepting")

    def say_goodbye(self) -> None:
        self.phases.append("say_goodbye")
        raise RuntimeError("say_goodbye")

    def last_work(self) -> Sequence[Work]:
        return (lambda: self._phase("last_work"),)

    async def close(self, until: float) -> None:
        await self._phase("close")


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_faulty_door_takes_nothing_from_the_others(hangs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "LATE_SECONDS", 0.01)
    settings = load_settings(flags={"server.drain_seconds": 0.3 if hangs else PATIENCE_SECONDS}).settings
    clock = ManualClock()
    store = MemoryStore(clock)
    gateway = Gateway(settings, store, clock, {}, is_embedded=True)
    faulty = Faulty(hangs=hangs)
    gateway.doors.append(faulty)
    await gateway.start()
    key = LEASE_PREFIX + gateway.parts.member.identity.incarnation
    [alive] = await store.key_values.get([key])
    assert alive is not None
    await asyncio.wait_for(gateway.drain(), PATIENCE_SECONDS)
    assert faulty.phases[:2] == ["end_waiting", "stop_accepting"]
    assert faulty.phases[-1] == "close"
    [left] = await store.key_values.get([key])
    assert left is not None
    assert left.value == DECLARED_DEAD, "this gateway has said that it has left"


def test_rules_of_events_come_before_what_publishes_and_hold_to_the_end() -> None:
    kinds = [kind.name for kind in door_kinds()]
    assert kinds[0] == "events"
    assert kinds[-1] == "http"


async def test_doors_are_closed_though_the_member_cannot_leave() -> None:
    settings = load_settings(flags={"server.drain_seconds": PATIENCE_SECONDS}).settings
    clock = ManualClock()
    store = MemoryStore(clock)
    gateway = Gateway(settings, store, clock, {}, is_embedded=True)
    faulty = Faulty(hangs=False)
    gateway.doors.append(faulty)
    await gateway.start()
    await store.key_values.write([KeyValueChange(SWEEPER_KEY, b"\xc1")])
    await asyncio.wait_for(gateway.drain(), PATIENCE_SECONDS)
    assert faulty.phases[-1] == "close"


async def test_a_gateway_is_forgotten_before_it_answers_no_more() -> None:
    settings = load_settings(
        flags={"server.drain_seconds": PATIENCE_SECONDS, "broker.enabled": True, "cluster.gateway_port": 0}
    ).settings
    clock = ManualClock()
    store = MemoryStore(clock)
    gateway = Gateway(settings, store, clock, {}, is_embedded=True)
    http = cast("HttpDoor", gateway._door("http"))
    await gateway.start()
    try:
        key = RECORD_PREFIX + gateway.parts.member.identity.incarnation
        listener = http.beside._listener
        assert listener is not None
        stop, found = listener.stop, list[list[str]]()

        async def stopped(grace_seconds: float) -> None:
            found.append([each.key for each in await store.key_values.scan(RECORD_PREFIX)])
            await stop(grace_seconds)

        listener.stop = stopped  # type: ignore[method-assign]
        assert [each.key for each in await store.key_values.scan(RECORD_PREFIX)] == [key]
    finally:
        await asyncio.wait_for(gateway.drain(), PATIENCE_SECONDS)
    assert found == [[]], "others ask one that does not listen any more"
