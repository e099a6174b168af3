"""A new incarnation holds what it is told from its first moment on, and nothing of the one before stays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.gateway.member.lease import ALIVE_SECONDS
from entrepot.gateway.member.record import DECLARED_DEAD, LEASE_PREFIX, RECORD_PREFIX
from entrepot.protocols.amqp.methods_connection import ConnectionClose
from entrepot.protocols.amqp.methods_topology import QueueDeclare, QueueDeclareOk
from tests.support.amqp.door import AmqpDoor
from tests.support.stores.replaced import replaced
from tests.support.waiting import until
from tests.unit.member.test_member import Cluster, names


async def be_declared_dead(door: AmqpDoor) -> None:
    """Others take its gateway for dead; its next look notices."""
    await door.store.key_values.write([KeyValueChange(LEASE_PREFIX + door.member.identity.incarnation, DECLARED_DEAD)])
    door.clock.advance(int(ALIVE_SECONDS * 1000))
    await door.member.lease.renew()


async def test_presence_of_the_new_incarnation_survives_a_sweep_of_another_gateway() -> None:
    async with AmqpDoor(name="one", is_alone=False) as door, AmqpDoor(door, name="two", is_alone=False) as elsewhere:
        await door.member.lease.renew()
        await elsewhere.member.lease.renew()
        client = await door.client().open()
        await client.declare("q")
        await client.consume("q")
        presence = elsewhere.hosts.presence
        await until(lambda: presence.gateways == {"one"}, "it is known")
        await be_declared_dead(door)
        await until(lambda: presence.gateways == {"one-again"}, "it is known under its new incarnation")
        await elsewhere.hosts.expiry._sweep()
        await door.member.lease.renew()
        await door.hosts.presence.settle()
        assert presence.elsewhere(elsewhere.queue("q")) == 1


async def test_an_exclusive_queue_declared_right_after_the_renewal_stays() -> None:
    async with AmqpDoor(name="one", is_alone=False) as door, AmqpDoor(door, name="two", is_alone=False) as elsewhere:
        await door.member.lease.renew()
        await elsewhere.member.lease.renew()
        await be_declared_dead(door)
        back = await door.client().open()
        back.say(1, QueueDeclare(queue="mine", exclusive=True))
        await back.expect(QueueDeclareOk)
        await elsewhere.hosts.expiry._sweep()
        await door.member.lease.renew()
        assert door.queue("mine") is not None, "its owner is connected, its gateway alive"


async def test_a_queue_whose_declaration_is_under_way_at_the_renewal() -> None:
    async with AmqpDoor(name="one", is_alone=False) as door, AmqpDoor(door, name="two", is_alone=False) as elsewhere:
        await door.member.lease.renew()
        await elsewhere.member.lease.renew()
        owner = await door.client().open()
        held, reached = asyncio.Event(), asyncio.Event()
        own = door.hosts.definitions._keys._key_values

        async def write(changes: Sequence[KeyValueChange]) -> int:
            reached.set()
            await held.wait()
            return await own.write(changes)

        door.hosts.definitions._keys._key_values = replaced(own, write=write)
        owner.say(1, QueueDeclare(queue="mine", exclusive=True))
        await reached.wait()
        await be_declared_dead(door)
        held.set()
        await until(lambda: owner.has(QueueDeclareOk, 1) or owner.has(ConnectionClose, 0), "it is answered")
        await door.member.lease.renew()
        await elsewhere.hosts.expiry._sweep()
        await until(lambda: owner.has(ConnectionClose, 0), "its owner is told that the queue goes")


async def test_no_record_of_the_incarnation_before_stays() -> None:
    cluster = Cluster()
    async with cluster.member("a") as silent, cluster.member("b") as other:
        table = silent.others._table
        own = table._keys._key_values
        failures = [EntrepotError(Code.UNAVAILABLE, "the keeper is away for a moment")]

        async def write(changes: Sequence[KeyValueChange]) -> int:
            if failures:
                raise failures.pop()
            return await own.write(changes)

        table._keys._key_values = replaced(own, write=write)
        await cluster.declare_dead("a")
        cluster.clock.advance(int(ALIVE_SECONDS * 1000))
        await silent.renew()
        await until(lambda: not failures and silent.others._rewriting is None, "it has tried")
        await silent.renew()
        await silent.others.keep()
        await until(lambda: "a-again" in names(other), "its new record is there")
        assert names(other) == ["a-again"]


async def test_no_record_stays_when_the_record_is_being_rewritten() -> None:
    cluster = Cluster()
    async with cluster.member("a") as silent, cluster.member("b") as other:
        table = silent.others._table
        own = table._keys._key_values
        held, reached = asyncio.Event(), asyncio.Event()

        async def write(changes: Sequence[KeyValueChange]) -> int:
            reached.set()
            await held.wait()
            return await own.write(changes)

        table._keys._key_values = replaced(own, write=write)
        await cluster.store.key_values.write([KeyValueChange(RECORD_PREFIX + "a", None)])
        await reached.wait()
        await cluster.declare_dead("a")
        cluster.clock.advance(int(ALIVE_SECONDS * 1000))
        await silent.renew()
        held.set()
        await until(lambda: silent.others._rewriting is None, "written")
        await silent.others.keep()
        await until(lambda: "a-again" in names(other), "its new record is there")
        assert names(other) == ["a-again"]


async def test_the_incarnation_before_is_swept_again_though_its_write_failed_once() -> None:
    cluster = Cluster()
    async with cluster.member("a") as silent:
        own = cluster.store.key_values
        fails = [False]

        async def write(changes: Sequence[KeyValueChange]) -> int:
            if fails[0] and any(each.value == DECLARED_DEAD for each in changes):
                fails[0] = False
                raise EntrepotError(Code.UNAVAILABLE, "away for a moment")
            return await own.write(changes)

        silent.lease._key_values = replaced(own, write=write)
        await own.write([KeyValueChange(LEASE_PREFIX + "a", None)])  # swept and forgotten
        cluster.clock.advance(int(ALIVE_SECONDS * 1000))
        fails[0] = True
        with pytest.raises(EntrepotError):
            await silent.renew()
        await silent.renew()
        await silent.renew()
        assert "a" in await cluster.keys(LEASE_PREFIX), "what came meanwhile under the name before is swept"
