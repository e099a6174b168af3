"""What operators see of a tier: figures, and why it does not go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.domain.tiering import TierAddress
from entrepot.domain.topic import Topic
from entrepot.gateway.http.metrics.metrics import STORE_GAUGES
from tests.support.clock import ManualClock
from tests.support.tiered.cold_topics import QUEUES, TOPIC, all_uploaded, opened, published, root
from tests.support.waiting import until


async def test_progress_and_lag_are_told(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock, max_age_seconds=3600.0, segment_bytes=64 << 20) as store:
        await store.topology.put_topic(TOPIC)
        await store.topology.put_topic(Topic("plain"))
        await published(store, clock, 0, 100)
        await until(lambda: store.tier is not None and not store.tier.problem, "the store is reached")
        [status] = await store.condition.tiering()
        assert (status.topic, status.table) == ("factory", root(store))
        assert (status.lag_messages, status.uploaded, status.segments, status.bytes) == (100 * QUEUES, (), 0, 0)
        assert status.address == TierAddress((tmp_path / "cold").as_uri())
        gauges = await store.condition.gauges()
        assert gauges["tier_lag_messages"] == 100 * QUEUES and gauges["tier_problems"] == 0
        assert gauges.keys() <= STORE_GAUGES.keys()
    async with opened(tmp_path, clock) as store:
        await all_uploaded(store, 100)
        [status] = await store.condition.tiering()
        assert status.uploaded == ((0, 100), (1, 100)) and status.lag_messages == 0 and not status.problem
        files = list((tmp_path / "cold").rglob("*.parquet"))
        assert (status.segments, status.bytes) == (len(files), sum(each.stat().st_size for each in files))
        gauges = await store.condition.gauges()
        told = {name: gauges[f"tier_{name}"] for name in ("lag_messages", "segments", "bytes", "problems")}
        assert told == {"lag_messages": 0, "segments": status.segments, "bytes": status.bytes, "problems": 0}


async def test_a_store_that_is_away_is_a_problem_of_each_topic(tmp_path: Path) -> None:
    (tmp_path / "cold").write_text("no folder")
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await until(lambda: store.tier is not None and "cold" in store.tier.problem, "it says why")
        gauges = await store.condition.gauges()
        assert gauges["tier_problems"] == 1 and gauges["tier_failed_requests"] >= 1
        [status] = await store.condition.tiering()
        assert store.tier is not None and status.problem == store.tier.problem


@pytest.mark.soak
async def test_what_a_store_that_goes_away_costs(tmp_path: Path) -> None:
    """Requests that fail are counted, and so is what the log keeps for its sake; of what may go, too, nothing is."""
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await store.topology.put_topic(Topic("plain", queues=1, retention_seconds=60))
        await published(store, clock, 0, 100)
        await all_uploaded(store, 100)
        gauges = await store.condition.gauges()
        assert (gauges["tier_failed_requests"], gauges["tier_kept_bytes"]) == (0, 0)
        (tmp_path / "cold").rename(tmp_path / "away")
        (tmp_path / "cold").write_text("no folder")
        await published(store, clock, 100, 600)
        await until(lambda: store.tier is not None and store.tier.failed_requests > 0, "requests fail")
        clock.advance(120_000)
        queues = [store.engine.dispatcher.queue("factory", number) for number in range(QUEUES)]
        await until(lambda: [queue.min_offset for queue in queues] == [100, 100], "what is in the table goes")
        await until(lambda: store.cleaner.kept_bytes > 600 * QUEUES * 1000, lambda: f"{store.cleaner.kept_bytes}")
        assert store.cleaner.kept_bytes < store.engine.end
        (tmp_path / "cold").unlink()
        (tmp_path / "away").rename(tmp_path / "cold")
        await all_uploaded(store, 700)
        await until(lambda: store.cleaner.kept_bytes == 0, "and nothing is kept any more")


async def test_a_topic_that_fails_alone_is_one_problem(tmp_path: Path) -> None:
    """A foreign file is in the table: its topic stands still, another goes on."""
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await published(store, clock, 0, 100)
        await all_uploaded(store, 100)
        table = tmp_path / "cold" / root(store)
    first, *_ = sorted(each for each in (table / "_delta_log").iterdir() if '"add"' in each.read_text())
    first.write_text("")  # corrupted
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(Topic("other", tier_seconds=10**9))
        await until(lambda: store.tier is not None and len(store.tier.progress) == 2, "both are told of")
        found = {status.topic: bool(status.problem) for status in await store.condition.tiering()}
        assert found == {"factory": True, "other": False}
        assert (await store.condition.gauges())["tier_problems"] == 1
