"""Spark jobs as their operations tell them: without HTTP."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from entrepot.domain.broker_answers import BrokerAnswers
from entrepot.domain.ingest_job import PREFIX, IngestJob, JobState, encode_job
from entrepot.domain.journey.ingest_record import PREFIX as BATCHES_PREFIX
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.topic import QueueBounds, Topic, TopicStatus
from entrepot.gateway.operations.nouns.ingest_jobs import MAX_ID, IngestJobs, IngestJobsAsked
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.shapes import PlainName
from tests.support.clock import ManualClock
from tests.support.gateways.asked import asked
from tests.support.stores.model_store import MemoryStore

NOW = 1_700_000_000_000


class Site:
    """A store with reports; `partial` and `missing`: what brokers do not tell."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.store = MemoryStore(self.clock)
        self.partial: frozenset[str] = frozenset()
        self.missing: dict[str, str] = {}
        self.jobs = IngestJobs(self.store.key_values, self.clock, self._ask)

    async def _ask(self, names: Sequence[str]) -> BrokerAnswers[TopicStatus]:
        ends = [QueueBounds(0, 0, 10), QueueBounds(1, 0, 3)]
        statuses = {name: TopicStatus(Topic(name), ends) for name in names if name != "gone"}
        return BrokerAnswers(statuses, self.partial, 1, self.missing)

    async def report(self, name: str, value: bytes) -> None:
        await self.store.key_values.write([KeyValueChange(PREFIX + name, value)])


def running(*topics: str) -> bytes:
    end = {topic: {"0": 8, "1": 5} for topic in topics}
    return encode_job(IngestJob("/lake", "delta", JobState.RUNNING, "spark-1", NOW, 3, NOW, end=end, every_seconds=30))


async def test_the_lag_is_that_of_now_and_unknown_where_nobody_tells_it() -> None:
    site = Site()
    await site.report("a", running("gone", "shop"))
    [gone, shop] = (await site.jobs.listed(IngestJobsAsked())).value[0].topics
    assert (gone.name, gone.lag, gone.queues) == ("gone", None, 2)
    assert (shop.name, shop.lag) == ("shop", 2), "a queue that is behind the job adds nothing"
    assert [(each.queue_id, each.offset) for each in shop.offsets] == [(0, "8"), (1, "5")]
    for site.partial, site.missing in ((frozenset({"shop"}), {}), (frozenset(), {"broker-1": "is away"})):
        [_, shop] = (await site.jobs.listed(IngestJobsAsked())).value[0].topics
        assert shop.lag is None


async def test_a_running_job_that_misses_three_reports_is_silent() -> None:
    site = Site()
    await site.report("a", running())
    await site.report("b", b"nonsense")
    site.clock.advance(90_000)
    [job, broken] = (await site.jobs.listed(IngestJobsAsked())).value
    assert (job.state, job.batch, job.version) == ("running", 3, None)
    assert (broken.state, broken.reason, broken.batch) == ("failed", "its report cannot be read", None)
    site.clock.advance(1)
    [job, _] = (await site.jobs.listed(IngestJobsAsked())).value
    assert job.state == "silent"


async def test_pages_of_ingest_jobs() -> None:
    site = Site()
    for name in "abc":
        await site.report(name, running())
    first = await site.jobs.listed(IngestJobsAsked(limit=2))
    assert ([job.id for job in first.value], first.next) == (["a", "b"], "b")
    rest = await site.jobs.listed(IngestJobsAsked(limit=2, after="b"))
    assert ([job.id for job in rest.value], rest.next) == (["c"], None)


async def test_a_job_is_forgotten_with_its_batches() -> None:
    site = Site()
    await site.report("a", running())
    await site.store.key_values.write([KeyValueChange(BATCHES_PREFIX + "a", b"{}")])
    request = asked(id="a")
    await site.jobs.forget(PlainName("a"), request)
    assert request.told == (("ingest job a", ""),)
    assert await site.store.key_values.get([PREFIX + "a", BATCHES_PREFIX + "a"]) == [None, None]
    again = asked(id="a")
    with pytest.raises(MissingError, match="no job 'a' has reported"):
        await site.jobs.forget(PlainName("a"), again)
    assert again.told is None
    await site.report("x" * MAX_ID, running())
    await site.jobs.forget(PlainName("x" * MAX_ID + "y"), again)
    assert again.told == ((f"ingest job {'x' * MAX_ID}", ""),)
