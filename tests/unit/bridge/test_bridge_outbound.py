"""What goes out: with what the remote takes, within the window, and settled by its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from entrepot.domain.definitions.consumer_group import EARLIEST
from entrepot.domain.message import SystemProperty
from entrepot.domain.names import dead_letter_topic
from entrepot.domain.topic import Topic
from entrepot.gateway.bridge.connection import RemoteConnection
from entrepot.gateway.bridge.outbound import AGAIN_MS, LEASE_MS, Outbound, ensure_groups, group_name
from entrepot.gateway.bridge.status import BridgeCounters
from entrepot.gateway.bridge.window import Window
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.settings import BridgeRemote, BridgeRule
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.steps import append_all, bodies, message, pop
from tests.support.waiting import until

REMOTE = BridgeRemote(
    name="old", url="mqtt://h", rules=[BridgeRule(direction="out", filter="t/#", qos=1, start=EARLIEST)]
)
RULE = REMOTE.rules[0]
GROUP = group_name(REMOTE, RULE)


class Remote:
    """Keeps what it is sent, and answers when it is told to."""

    def __init__(self) -> None:
        self.max_packet_bytes: int | None = None
        self.maximum_qos = 2
        self.takes_retained = True
        self.sent: list[tuple[str, bytes, int, bool]] = []
        self.answers: list[asyncio.Future[int]] = []

    def publish(self, name: str, body: bytes, qos: int, retain: bool, properties: object) -> asyncio.Future[int]:
        self.sent.append((name, body, qos, retain))
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]


class Site:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.counters = BridgeCounters()
        self.incidents = Incidents(self.clock)
        self.outbound = Outbound(REMOTE, self.store, self.clock, self.counters, set(), "here", self.incidents)
        self.leased = LeasedConsumer(self.store, self.clock, "t", GROUP, lease_ms=LEASE_MS)
        self.remote = Remote()
        self.window = Window(10)

    def begin(self) -> asyncio.Task[bool]:
        connection = cast("RemoteConnection", self.remote)
        return asyncio.ensure_future(self.outbound._carry_some(RULE, self.leased, self.window, connection))

    async def publish(self, *given: str, **fields: Any) -> None:
        assert not any(await append_all(self.store, *(message("t", each, **fields) for each in given)))


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    await made.store.topology.put_topic(Topic("t", queues=1))
    await ensure_groups(made.store, REMOTE, 0)
    yield made
    await made.leased.close()
    await made.store.close()


async def test_room_that_is_not_used_is_the_others_at_once(site: Site) -> None:
    await site.publish("a", "b", "c")
    carrying = site.begin()
    await until(lambda: len(site.remote.sent) == 3, "all are on their way")
    assert site.window._free == 7
    for answer in site.remote.answers:
        answer.set_result(0)
    assert await carrying
    assert site.window._free == 10
    assert not await site.begin(), "there is no more"
    assert (site.window._free, site.counters.sent) == (10, 3)


async def test_the_remote_s_answer_settles_each(site: Site) -> None:
    await site.publish("done", "again", "never")
    carrying = site.begin()
    await until(lambda: len(site.remote.sent) == 3, "all are on their way")
    for answer, code in zip(site.remote.answers, (0x10, 0x97, 0x99), strict=True):
        answer.set_result(code)
    assert await carrying
    await site.leased.settle()
    assert bodies(await pop(site.store, dead_letter_topic(GROUP), "inspector")) == ["never"]
    site.clock.advance(AGAIN_MS - 1)
    assert await pop(site.store, "t", GROUP) == []
    site.clock.advance(1)
    assert bodies(await pop(site.store, "t", GROUP)) == ["again"]
    assert (site.counters.sent, site.counters.refused_out) == (1, 1)


@pytest.mark.parametrize(("own", "remote", "expected"), [(2, 2, 1), (1, 0, 0), (0, 2, 0), (1, 1, 1)])
async def test_the_lowest_quality_of_service_counts(site: Site, own: int, remote: int, expected: int) -> None:
    site.remote.maximum_qos = remote
    await site.publish("m", qos=own, system={SystemProperty.RETAIN: "1"})
    carrying = site.begin()
    await until(lambda: site.remote.sent, "it is on its way")
    assert site.remote.sent == [("t", b"m", expected, True)]
    site.remote.answers[0].set_result(0)
    assert await carrying


async def test_what_is_too_large_or_over_is_not_sent(site: Site) -> None:
    site.remote.max_packet_bytes = 100
    await site.publish("x" * 100)
    await site.publish("over", system={SystemProperty.EXPIRES_AT_MS: site.clock.now_ms()})
    assert await site.begin()
    await site.leased.settle()
    assert (site.remote.sent, site.counters.ignored, site.counters.refused_out) == ([], 1, 1)
    assert bodies(await pop(site.store, dead_letter_topic(GROUP), "inspector")) == ["x" * 100]
