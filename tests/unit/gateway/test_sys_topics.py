"""What `$SYS` says, with a clock that stands still and counters that the test moves."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import fields

import pytest
from structlog.testing import capture_logs

from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.mqtt import sys_topics
from entrepot.gateway.mqtt.sys_topics import SysCounters, SysTopics
from tests.support.clock import ManualClock
from tests.support.waiting import until

ALL = [field.name for field in fields(SysCounters)]


class World:
    """Counters, a clock, and what was published."""

    def __init__(self, *names: str, interval_seconds: float = 10, look=None) -> None:
        self.counts: Counter[str] = Counter()
        self.clock = ManualClock()
        self.incidents = Incidents(self.clock)
        self.broken: set[str] = set()
        self.published: list[tuple[str, str]] = []
        counters = SysCounters(**{name: (lambda name=name: self.count(name)) for name in names})
        self.topics = SysTopics(
            counters,
            self.clock,
            self.publish,
            self.incidents,
            version="entrepot version 1",
            interval_seconds=interval_seconds,
            look=look,
        )

    def count(self, name: str) -> int:
        if name in self.broken:
            raise KeyError(name)
        return self.counts[name]

    def publish(self, name: str, value: bytes) -> None:
        if name in self.broken:
            raise ValueError(name)
        self.published.append((name, value.decode()))

    def set_aside(self) -> list[str]:
        """What was, since it was asked last."""
        found = [each.place for each in self.incidents.last if each.outcome is Outcome.SET_ASIDE]
        self.incidents.last.clear()
        return found

    async def update(self, after_ms: int = 0) -> dict[str, str]:
        """What is published after a while, without the prefix."""
        self.clock.advance(after_ms)
        self.published.clear()
        await self.topics.update()
        assert len({name for name, _ in self.published}) == len(self.published)
        assert all(name.startswith("$SYS/broker/") for name, _ in self.published)
        return {name.removeprefix("$SYS/broker/"): value for name, value in self.published}


@pytest.fixture(autouse=True)
def logged():
    """What is logged, instead of a stream that another test may have closed."""
    with capture_logs() as events:
        yield events


async def test_all_names_are_there_at_first():
    world = World(*ALL)
    kinds = ["connections", "sockets", "messages/received", "messages/sent", "bytes/received", "bytes/sent"]
    kinds += ["publish/received", "publish/sent", "publish/dropped"]
    loads = {f"load/{kind}/{minutes}min" for kind in kinds for minutes in (1, 5, 15)}
    told = await world.update()
    assert {name for name in told if name.startswith("load/")} == loads
    assert {name: value for name, value in told.items() if name not in loads} == {
        "version": "entrepot version 1",
        "uptime": "0 seconds",
        "clients/total": "0",
        "clients/connected": "0",
        "clients/disconnected": "0",
        "clients/maximum": "0",
        "clients/expired": "0",
        "messages/received": "0",
        "messages/sent": "0",
        "messages/inflight": "0",
        "publish/messages/received": "0",
        "publish/messages/sent": "0",
        "publish/messages/dropped": "0",
        "publish/bytes/received": "0",
        "publish/bytes/sent": "0",
        "bytes/received": "0",
        "bytes/sent": "0",
        "subscriptions/count": "0",
        "shared_subscriptions/count": "0",
        "retained messages/count": "0",
        "store/messages/count": "0",
        "store/messages/bytes": "0",
    }
    assert {told[name] for name in loads} == {"0.00"}


async def test_only_what_changed_is_published():
    world = World(*ALL)
    await world.update()
    assert await world.update() == {}
    assert await world.update(after_ms=1000) == {"uptime": "1 seconds"}
    world.counts["subscriptions_count"] = 7
    assert await world.update(after_ms=999) == {"subscriptions/count": "7"}
    assert await world.update(after_ms=1) == {"uptime": "2 seconds"}


async def test_what_nobody_counts_has_no_topic():
    world = World("bytes_sent")
    assert set(await world.update()) == {
        "version",
        "uptime",
        "bytes/sent",
        *(f"load/bytes/sent/{minutes}min" for minutes in (1, 5, 15)),
    }


async def test_clients():
    world = World("clients_connected", "clients_disconnected")
    world.counts.update(clients_connected=5, clients_disconnected=3)
    told = await world.update()
    assert (told["clients/total"], told["clients/connected"], told["clients/maximum"]) == ("8", "5", "5")
    world.counts.update(clients_connected=-4, clients_disconnected=4)
    assert await world.update() == {"clients/connected": "1", "clients/disconnected": "7"}  # the total stays
    world.counts.update(clients_connected=6)
    assert (await world.update())["clients/maximum"] == "7"


async def test_loads_are_moving_averages_per_minute():
    world = World("publish_messages_received")
    await world.update()
    world.counts["publish_messages_received"] += 100
    told = await world.update(after_ms=10_000)
    rate = 600.0
    expected = {minutes: rate * (1 - math.exp(-1 / 6 / minutes)) for minutes in (1, 5, 15)}
    for minutes in (1, 5, 15):
        assert float(told[f"load/publish/received/{minutes}min"]) == pytest.approx(expected[minutes], abs=0.006)
    told = await world.update(after_ms=20_000)
    assert float(told["load/publish/received/1min"]) == pytest.approx(expected[1] * math.exp(-1 / 3), abs=0.01)


async def test_a_steady_rate_is_what_the_loads_come_to_and_back_to_nothing():
    world = World("bytes_received")
    await world.update()
    for _ in range(6 * 150):
        world.counts["bytes_received"] += 50
        await world.update(after_ms=10_000)
    values = dict(world.topics.current("$SYS/broker/load/bytes/received/+"))
    assert [float(value) for value in values.values()] == pytest.approx([300, 300, 300], abs=0.1)
    await world.update(after_ms=24 * 3_600_000)
    values = dict(world.topics.current("$SYS/broker/load/bytes/received/+"))
    assert set(values.values()) == {b"0.00"}


async def test_totals_from_before_the_start_are_no_load():
    world = World()
    topics = SysTopics(
        SysCounters(bytes_sent=lambda: 10**9),
        world.clock,
        lambda *_: None,
        world.incidents,
        version="v",
        interval_seconds=1,
    )
    world.clock.advance(60_000)
    await topics.update()
    assert dict(topics.current("#")) == {}
    assert dict(topics.current("$SYS/broker/load/bytes/sent/1min")) == {"$SYS/broker/load/bytes/sent/1min": b"0.00"}


async def test_a_new_subscriber_gets_the_current_values():
    world = World("bytes_sent", "clients_connected")
    assert world.topics.current("$SYS/#") == []
    await world.update()
    world.counts["bytes_sent"] = 5
    await world.update(after_ms=60_000)
    assert world.topics.current("$SYS/broker/bytes/sent") == [("$SYS/broker/bytes/sent", b"5")]
    assert dict(world.topics.current("$SYS/+/uptime")) == {"$SYS/broker/uptime": b"60 seconds"}
    assert len(world.topics.current("$SYS/#")) == 2 + 1 + 3 + 3
    assert world.topics.current("#") == world.topics.current("+/broker/uptime") == []


async def test_what_must_be_asked_for_is_asked_before():
    asked: list[int] = []

    async def look() -> None:
        await asyncio.sleep(0)
        asked.append(1)
        world.counts["store_messages_bytes"] += 9

    world = World("store_messages_bytes", look=look)
    assert (await world.update())["store/messages/bytes"] == "9"
    assert (await world.update())["store/messages/bytes"] == "18"


async def test_it_goes_on_by_itself_also_after_a_fault(monkeypatch, logged):
    world = World("bytes_sent", interval_seconds=0.001)
    faults = [RuntimeError("not ours")]

    def publish(name: str, value: bytes) -> None:
        if faults:
            raise faults.pop()
        world.published.append((name, value.decode()))

    monkeypatch.setattr(world.topics, "_publish", publish)
    world.topics.start()
    await until(lambda: ("$SYS/broker/bytes/sent", "0") in world.published, "nothing is published")
    world.counts["bytes_sent"] = 3
    await until(lambda: ("$SYS/broker/bytes/sent", "3") in world.published, "the new value is not published")
    world.topics.close()
    world.counts["bytes_sent"] = 4
    for _ in range(20):
        await asyncio.sleep(0)
    assert ("$SYS/broker/bytes/sent", "4") not in world.published
    assert faults == []
    assert [event["log_level"] for event in logged] == ["warning"]
    assert world.set_aside() == ["$SYS/broker/version"]
    assert dict(world.topics.current("$SYS/broker/version")) == {"$SYS/broker/version": b"entrepot version 1"}


async def test_a_counter_that_fails_keeps_no_other_back():
    """It is told what failed; once it works again, its load is that of the whole time."""
    world = World("messages_sent", "bytes_sent", "clients_connected")
    await world.update()
    world.broken = {"bytes_sent"}
    world.counts.update(messages_sent=60, bytes_sent=600, clients_connected=2)
    told = await world.update(after_ms=30_000)
    assert (told["messages/sent"], told["clients/connected"], told["clients/total"]) == ("60", "2", "2")
    assert [name for name in told if name.startswith(("bytes", "load/bytes"))] == []
    assert world.set_aside() == ["bytes_sent"]
    assert world.topics.current("$SYS/broker/bytes/sent") == [("$SYS/broker/bytes/sent", b"0")], "the last one known"
    world.broken = set()
    told = await world.update(after_ms=30_000)
    assert told["bytes/sent"] == "600"
    assert float(told["load/bytes/sent/1min"]) == pytest.approx(600 * (1 - math.exp(-1)), abs=0.01)


async def test_a_name_that_cannot_be_published_keeps_no_other_back():
    world = World("messages_sent", "bytes_sent")
    world.broken = {"$SYS/broker/uptime", "$SYS/broker/load/bytes/sent/5min"}
    told = await world.update()
    assert len(told) == 2 + 2 + 6 - 2
    assert sorted(world.set_aside()) == sorted(world.broken)
    world.broken = set()
    assert set(await world.update()) == {"uptime", "load/bytes/sent/5min"}, "they are published then"
    assert world.set_aside() == []


async def test_what_cannot_be_asked_for_keeps_the_rest_alive():
    async def look() -> None:
        raise OSError("away")

    world = World("bytes_sent", look=look)
    assert (await world.update())["bytes/sent"] == "0"
    assert world.set_aside() == ["what is asked for"]


async def test_a_counter_that_fails_at_the_start_has_no_load():
    world = World()
    world.broken = {"bytes_sent"}
    counters = SysCounters(bytes_sent=lambda: world.count("bytes_sent"), messages_sent=lambda: 7)
    SysTopics(counters, world.clock, world.publish, world.incidents, version="v", interval_seconds=1)
    assert world.set_aside() == ["bytes_sent"]


async def test_an_interval_of_0_is_off():
    world = World("bytes_sent", interval_seconds=0)
    world.topics.start()
    for _ in range(5):
        await asyncio.sleep(0)
    world.topics.close()
    assert (world.published, world.topics.current("$SYS/#")) == ([], [])


def test_every_counter_has_a_topic():
    assert {*sys_topics._NAMES, *sys_topics._LOADS} == set(ALL)
