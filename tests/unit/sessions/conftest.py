"""A store that fails when it is told to, and gateways' sessions over it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

import pytest

from entrepot.domain.broker_of_queue import broker_of_queue
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.mqtt.sessions.census import SessionCensus
from entrepot.gateway.mqtt.sessions.opening import Arrival, Sessions
from entrepot.gateway.mqtt.sessions.operating import SessionOperations
from entrepot.gateway.mqtt.sessions.record import SessionRecord, WillRecord
from entrepot.gateway.mqtt.sessions.session import Session
from entrepot.gateway.mqtt.sessions.sweeper import Sweeper
from tests.support.clock import ManualClock
from tests.support.gateways.members import member_named
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced


class FailingStore(MemoryStore):
    """`failures`: what the next writes raise, and whether they are done nevertheless.  `writes`: their keys."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.own = self.key_values
        self.key_values = replaced(self.own, write=self.write)
        self.failures: list[tuple[Code, bool]] = []
        self.writes: list[list[str]] = []

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        self.writes.append([change.key for change in changes])
        if self.failures:
            code, is_done = self.failures.pop(0)
            if is_done:
                await self.own.write(changes)
            raise EntrepotError(code, "as the test says")
        return await self.own.write(changes)


class SessionWorld:
    """One store, one clock, and any number of gateways."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = FailingStore(self.clock)
        self.numbers: dict[tuple[str, int], int] = {}
        """Numbers of topics by name and broker (`Topology.made_at`)."""
        made_at = lambda name, queue_id: self.numbers.get((name, broker_of_queue(queue_id)), 0)  # noqa: E731
        self.store.topology = replaced(self.store.topology, made_at=made_at)
        self.incidents = Incidents(self.clock)
        self.wills: list[bytes] = []
        self.taken: list[tuple[str, str, int]] = []
        self.dead: list[str] = []
        self.kicked: list[tuple[str, str, bool]] = []

    async def publish_will(self, record: SessionRecord, will: WillRecord) -> None:
        self.wills.append(will.payload)

    def gateway(self, name: str) -> Sessions:
        census = SessionCensus(self.store, 0)
        return Sessions(self.store, self.clock, lambda: name, self.publish_will, census, self.incidents, is_alone=False)

    def sweeper(self, name: str, *, is_alone: bool = False) -> Sweeper:
        def told(session: str, epoch: int) -> Awaitable[None]:
            self.taken.append((name, session, epoch))
            return asyncio.sleep(0)

        def kicked(session: str, ends: bool) -> None:
            self.kicked.append((name, session, ends))

        member = member_named(self.store, self.clock, name, is_alone=is_alone)
        member.identity.on_renewed.append(self.dead.append)
        return Sweeper(self.store, self.clock, member, self.publish_will, self.incidents, told, kicked)

    def operations(self) -> SessionOperations:
        return SessionOperations(self.store, self.clock, self.publish_will, self.incidents)

    async def opened(self, gateway: Sessions, client_id: str = "c", expiry: int = 600, **fields: object) -> Session:
        arrival = {"version": 5, "clean_start": False, **fields}
        return await gateway.open(Arrival(client_id, expiry_seconds=expiry, **arrival))  # type: ignore[arg-type]


async def started(sweeper: Sweeper) -> None:
    """Be a member, and sweep."""
    await sweeper.member.start()
    sweeper.start()


async def ended(sweeper: Sweeper) -> None:
    """Sweep no more, and leave the cluster."""
    await sweeper.close()
    await sweeper.member.leave()


@pytest.fixture
def world() -> SessionWorld:
    return SessionWorld()


def will(payload: bytes = b"w", delay: int = 0) -> WillRecord:
    return WillRecord("t", payload, 1, False, {}, delay)
