"""R32: a master's store time goes on from what the log has, though its clock is behind that of the one before."""

from __future__ import annotations

from pathlib import Path

from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.store_clock import MAX_BEHIND_MS, StoreClock
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from tests.support.cases import cases
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all

NOW = 1_700_000_000_000


@cases(
    "name, latest_ms, first, later",
    [
        ("an empty log", 0, NOW, NOW + 500),
        ("a log of before", NOW - 10, NOW, NOW + 500),
        ("a log that is ahead", NOW + 400, NOW + 400, NOW + 500),
        ("by the most", NOW + MAX_BEHIND_MS, NOW + MAX_BEHIND_MS, NOW + MAX_BEHIND_MS),
        ("by too much", NOW + MAX_BEHIND_MS + 1, NOW, NOW + 500),
    ],
)
def test_store_time(name: str, latest_ms: int, first: int, later: int) -> None:
    clock = ManualClock(NOW)
    store_clock = StoreClock(clock, latest_ms)
    assert store_clock.now_ms() == first
    clock.advance(500)
    assert store_clock.now_ms() == later


async def test_the_log_knows_its_latest_time(tmp_path: Path) -> None:
    for clock in (ManualClock(NOW), ManualClock(NOW - 30_000)):
        store = await Broker.open(BrokerSettings(tmp_path), clock)
        await store.topology.put_topic(Topic("t", queues=1))
        clock.advance(1000)
        await append_all(store, Message("t", b"", queue_id=0, message_id=b"id"))
        assert store.engine.lookup.index.latest_ms == NOW + 1000, "also behind one that is earlier"
        await store.close()
