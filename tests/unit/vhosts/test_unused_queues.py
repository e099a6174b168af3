"""Queues that end: of gateways that are gone, and that nobody uses at any gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValue, KeyValueChange
from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.domain.queues.declaration import declared_queue
from entrepot.gateway.amqp.virtual_hosts.counting import Counting
from entrepot.gateway.amqp.virtual_hosts.expiry import Expiry, end_of
from entrepot.gateway.amqp.virtual_hosts.presence import ConsumerPresence, PresenceRecord
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.member.record import DECLARED_DEAD, LEASE_PREFIX
from tests.support.amqp.publishers import Site
from tests.support.gateways.members import member_named
from tests.support.stores.replaced import replaced
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


async def test_a_lease_begins_anew_after_downtime(site: Site) -> None:
    before = expiry_of(site, "before")
    queue = await site.queue("q", **{"x-expires": 1000})
    before.used(site.vhost, queue)
    assert await before._is_used(site.vhost, queue, 1000)
    site.clock.advance(5_000)
    after = expiry_of(site, "after")
    assert await after._is_used(site.vhost, queue, 1000)
    site.clock.advance(999)
    assert await after._is_used(site.vhost, queue, 1000)
    site.clock.advance(1)
    assert not await after._is_used(site.vhost, queue, 1000)


async def test_a_lease_begins_anew_after_an_outage_of_the_store(site: Site) -> None:
    expiry, own = expiry_of(site, "here"), site.store.key_values
    queue = await site.queue("q", **{"x-expires": 1000})
    expiry.used(site.vhost, queue)
    assert await expiry._is_used(site.vhost, queue, 1000)

    async def get(keys: Sequence[str]) -> list[KeyValue | None]:
        raise EntrepotError(Code.UNAVAILABLE, "not now")

    site.store.key_values = replaced(own, get=get)
    site.clock.advance(500)
    with pytest.raises(EntrepotError):
        await expiry._is_used(site.vhost, queue, 1000)
    site.store.key_values = own
    site.clock.advance(5_000)
    assert await expiry._is_used(site.vhost, queue, 1000)
    site.clock.advance(1_000)
    assert not await expiry._is_used(site.vhost, queue, 1000)


async def test_a_queue_without_a_recorded_use_begins_its_time(site: Site) -> None:
    """Such as one that a policy lets expire from now on."""
    expiry, queue = expiry_of(site, "here"), await site.queue("q")
    site.clock.advance(5_000)
    assert await expiry._is_used(site.vhost, queue, 1000)


class Consumed(ConsumerPresence):
    """Consumers at gateways, by the Topic of a queue."""

    def __init__(self, others: dict[str, set[str]]) -> None:
        self._mine = {}
        self._others = {topic: dict.fromkeys(names, PresenceRecord(1, 1)) for topic, names in others.items()}
        self.forgotten: set[str] = set()

    async def forget_gateways(self, gone: set[str]) -> None:
        self.forgotten |= gone


async def test_auto_delete_queues_go_with_the_gateway_of_their_last_consumer(site: Site) -> None:
    await site.store.key_values.write([KeyValueChange(LEASE_PREFIX + "alive", b"1")])
    topics = {}
    for name, is_auto in (("both", True), ("alone", True), ("kept", False), ("elsewhere", True)):
        wanted = declared_queue(name, "/", durable=True, auto_delete=is_auto, arguments={})
        made, _ = await site.definitions.declare_queue(site.vhost, wanted, gateway="g", connection="", now_ms=1)
        topics[name] = made.topic
    await owned(site, "exclusive", "gone")
    expiry = expiry_of(site, "here")
    expiry.presence = consumed = Consumed(
        {
            topics["both"]: {"gone", "alive"},
            topics["alone"]: {"gone"},
            topics["kept"]: {"gone"},
            topics["elsewhere"]: {"alive"},
        }
    )
    delete, refused = site.definitions.delete_queue, ["alone"]

    async def delete_queue(vhost: Vhost, queue: Queue) -> None:
        if queue.name in refused:
            raise EntrepotError(Code.UNAVAILABLE, "not now")
        await delete(vhost, queue)

    expiry._definitions = replaced(site.definitions, delete_queue=delete_queue)
    await expiry._sweep()
    assert sorted(site.vhost.queues) == ["alone", "both", "elsewhere", "kept"], "one refusal keeps no other"
    assert not consumed.forgotten
    refused.clear()
    await expiry._sweep()
    assert sorted(site.vhost.queues) == ["both", "elsewhere", "kept"]
    assert consumed.forgotten == {"gone"}


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
