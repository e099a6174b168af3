"""A member of the cluster is known while it lives, and forgotten once; being silent and being dead are two facts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.member.lease import ALIVE_SECONDS
from entrepot.gateway.member.member import Member
from entrepot.gateway.member.others import FORGET_SECONDS
from entrepot.gateway.member.record import DECLARED_DEAD, LEASE_PREFIX, RECORD_PREFIX
from tests.support.clock import ManualClock
from tests.support.gateways.members import member_named
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced
from tests.support.waiting import until


class Cluster:
    """Gateways on one store, each reachable at a port of its own."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)

    @asynccontextmanager
    async def member(self, name: str, address: str = "127.0.0.1:1") -> AsyncIterator[Member]:
        member = member_named(self.store, self.clock, name, is_alone=False)
        member.others.reachable_at(address, is_tls=False)
        await member.start()
        await member.others.start(1.0)
        try:
            yield member
        finally:
            await member.leave()

    async def keys(self, prefix: str) -> dict[str, bytes]:
        found = await self.store.key_values.scan(prefix)
        return {each.key.removeprefix(prefix): each.value for each in found}

    async def declare_dead(self, name: str) -> None:
        await self.store.key_values.write([KeyValueChange(LEASE_PREFIX + name, DECLARED_DEAD)])


def names(member: Member) -> list[str]:
    return [incarnation for incarnation, _ in member.others.others()]


async def test_a_member_is_known_until_it_leaves_and_stays_forgotten() -> None:
    cluster = Cluster()
    async with cluster.member("b") as staying:
        async with cluster.member("a") as leaving:
            await until(lambda: names(staying) == ["a"] and names(leaving) == ["b"], "they know each other")
            assert (leaving.others.is_first, staying.others.is_first) == (True, False)
        await leaving.others.keep()
        await until(lambda: names(staying) == [], "it is forgotten")
        assert staying.others.is_first
        assert (await cluster.keys(LEASE_PREFIX))["a"] == DECLARED_DEAD
        assert list(await cluster.keys(RECORD_PREFIX)) == ["b"]


async def test_a_gateway_that_cannot_be_asked_has_a_lease_and_no_record() -> None:
    cluster = Cluster()
    async with cluster.member("a", address="") as member:
        assert list(await cluster.keys(LEASE_PREFIX)) == ["a"]
        assert await cluster.keys(RECORD_PREFIX) == {}
        assert member.others.own.name == "a"


async def test_a_member_that_was_declared_dead_has_one_record_under_its_new_incarnation() -> None:
    cluster = Cluster()
    async with cluster.member("a") as silent, cluster.member("b") as other:
        await cluster.declare_dead("a")
        cluster.clock.advance(int(ALIVE_SECONDS * 1000))
        await silent.renew()
        assert silent.identity.incarnation == "a-again"
        await until(lambda: names(other) == ["a-again"], "the other knows the new incarnation alone")
        await silent.renew()
        assert sorted(await cluster.keys(LEASE_PREFIX)) == ["a", "a-again", "b"]
        assert [record.name for _, record in other.others.others()] == ["a"]


async def test_silence_forgets_nobody_who_has_a_lease() -> None:
    cluster = Cluster()
    async with cluster.member("here") as here, cluster.member("silent") as silent:
        await until(lambda: names(here) == ["silent"], "it is known")
        here.others.note_answer("silent", is_silent=True)
        cluster.clock.advance(int(FORGET_SECONDS * 1000) + 1)
        await silent.renew()
        await here.others.keep()
        assert names(here) == ["silent"] and here.others.silent_ms("silent") > FORGET_SECONDS * 1000
        assert here.others.is_first, "a silent one does nothing for all"
        await cluster.declare_dead("silent")
        silent.others.close()
        await here.others.keep()
        await until(lambda: names(here) == [], "it is gone")


async def test_a_record_that_another_deleted_is_written_again() -> None:
    cluster = Cluster()
    async with cluster.member("a"), cluster.member("b") as other:
        await until(lambda: names(other) == ["a"], "it is known")
        await cluster.store.key_values.write([KeyValueChange(RECORD_PREFIX + "a", None)])
        await until(lambda: names(other) == ["a"], "it has written itself down again")
        assert sorted(await cluster.keys(RECORD_PREFIX)) == ["a", "b"]


@pytest.mark.parametrize("fails_first", [False, True])
def test_one_who_fails_to_take_a_new_incarnation_holds_up_nobody(fails_first: bool) -> None:
    told: list[str] = []

    def fails(before: str) -> None:
        raise RuntimeError(before)

    identity = Identity("a")
    identity.on_renewed = [fails, told.append] if fails_first else [told.append, fails]
    before = identity.incarnation
    identity.renew()
    assert told == [before] != [identity.incarnation]


async def test_a_store_without_key_values_has_no_members() -> None:
    cluster = Cluster()

    async def write(changes: object) -> int:
        raise EntrepotError(Code.UNSUPPORTED, "no key-values")

    cluster.store.key_values = replaced(cluster.store.key_values, write=write)
    member = member_named(cluster.store, cluster.clock)
    await member.start()
    assert not member.is_kept and member.sweeps
    await member.leave()


async def test_one_who_leaves_gives_the_sweepers_lease_back() -> None:
    cluster = Cluster()
    async with cluster.member("b") as staying:
        async with cluster.member("a"):
            await staying.renew()
            assert staying.sweeps, "it came first"
        async with cluster.member("c") as third:
            assert not third.sweeps
            await staying.leave()
            await third.renew()
            assert third.sweeps


async def test_one_who_has_left_sweeps_no_more() -> None:
    cluster = Cluster()
    async with cluster.member("a") as member:
        assert member.sweeps
        await member.leave()
        assert not member.sweeps
