"""Queues that end: of gateways that are gone, and that nobody uses at any gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.domain.queues.declaration import declared_queue
from entrepot.gateway.amqp.virtual_hosts.counting import Counting
from entrepot.gateway.amqp.virtual_hosts.expiry import Expiry, end_of
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
from entrepot.gateway.member.record import DECLARED_DEAD, LEASE_PREFIX
from tests.support.amqp.publishers import Site
from tests.support.gateways.members import member_named
from tests.support.stores.steps import append, pop


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    opened = await Site().open()
    yield opened
    await opened.close()


def expiry_of(site: Site, gateway: str) -> Expiry:
    hosts = site.door.virtual_hosts
    member = member_named(site.store, site.clock, gateway, is_alone=False)
    return Expiry(site.store, site.definitions, hosts.feeds, hosts.dead_letters, site.clock, member)


async def owned(site: Site, name: str, gateway: str) -> Queue:
    wanted = declared_queue(name, "/", exclusive=True, arguments={})
    queue, _ = await site.definitions.declare_queue(site.vhost, wanted, gateway=gateway, connection="c", now_ms=1)
    return queue


async def test_queues_go_with_a_gateway_that_is_gone_or_declared_dead(site: Site) -> None:
    for gateway in ("here", "alive", "dead", "gone"):
        await owned(site, f"of {gateway}", gateway)
    alive, dead = (
        KeyValueChange(LEASE_PREFIX + name, value) for name, value in (("alive", b"1"), ("dead", DECLARED_DEAD))
    )
    await site.store.key_values.write([alive, dead])
    await expiry_of(site, "here")._sweep()
    assert sorted(site.vhost.queues) == ["of alive", "of here"]


async def test_a_use_at_one_gateway_is_known_at_all(site: Site) -> None:
    one, two = expiry_of(site, "one"), expiry_of(site, "two")
    queue = await site.queue("q", **{"x-expires": 1000})
    one.used(site.vhost, queue)
    assert await one._is_used(site.vhost, queue, 1000)
    site.clock.advance(500)
    one.used(site.vhost, queue)
    assert await one._is_used(site.vhost, queue, 1000)
    site.clock.advance(999)
    assert await two._is_used(site.vhost, queue, 1000)
    site.clock.advance(1)
    assert not await two._is_used(site.vhost, queue, 1000)


@pytest.mark.parametrize(
    ("lifetime_ms", "expires_at_ms", "end_ms"),
    [(None, None, None), (5, None, 105), (None, 103, 103), (5, 103, 103), (2, 103, 102)],
)
def test_the_sooner_of_two_ends_counts(lifetime_ms: int | None, expires_at_ms: int | None, end_ms: int | None) -> None:
    system = {} if expires_at_ms is None else {SystemProperty.EXPIRES_AT_MS: expires_at_ms}
    assert end_of(StoredMessage("t", b"", "t", born_time_ms=100, system=system), lifetime_ms) == end_ms


async def test_counts_tell_what_waits_from_what_is_held(site: Site) -> None:
    counting, queue = Counting(site.store), await site.queue("q")
    await append(site.store, queue.topic, b"1", b"22", b"333", b"4444")
    assert (await counting.counts(queue), await counting.ready_bytes(queue)) == ((4, 0), 10)
    held = await pop(site.store, queue.topic, queue.group, 2)
    assert (await counting.counts(queue), await counting.ready_bytes(queue)) == ((2, 2), 7)
    await site.store.consumption.acknowledge(queue.topic, queue.group, held[:1])
    assert (await counting.counts(queue), await counting.ready_bytes(queue)) == ((2, 1), 7)
    assert await counting.purge(queue) == 2
    assert await counting.counts(queue) == (0, 1)
    await site.delete_queue("q")
    assert (await counting.counts(queue), await counting.ready_bytes(queue)) == ((0, 0), 0)
