"""Cold messages through a broker: pulls, runs of records, the first one, filters, and the tier's cost for hot ones."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest import mock

import uvloop
from rich.console import Console

from benchmarks.processes import BenchmarkError
from benchmarks.report import Goal, Report
from benchmarks.store_parts import append_all
from benchmarks.tier_load import telemetry
from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.settings.tier import TierSettings
from entrepot.broker.tiered import cold as cold_reading
from entrepot.broker.tiered.cold import ColdTopic
from entrepot.broker.tiered.columns import to_messages
from entrepot.broker.tiered.objects import ObjectStore
from entrepot.broker.tiered.opening_store import open_objects
from entrepot.broker.tiered.segment_reader import SegmentReader
from entrepot.broker.tiered.store_options import StoreOptions
from entrepot.broker.tiered.table import TopicTable
from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock
from entrepot.protocols.wire.records import decode_run

PAGE: Final = 1024
RUN_BYTES: Final = 1 << 20
WAIT_SECONDS: Final = 120
TOPIC: Final = Topic("bench", queues=1, retention_seconds=1, tier_seconds=10**9)
HOT: Final = Topic("bench", queues=1, tier_seconds=10**9)
PAIRS: Final = 15
FIRSTS: Final = 20


def add_to(report: Report, console: Console, *, quick: bool) -> None:
    """Add the rows of this part."""
    count = 20_000 if quick else 200_000
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        console.print("cold reads through a broker", style="dim")
        uvloop.run(_cold(report, Path(directory), count))
        console.print("the first cold message, and filters", style="dim")
        _firsts(report, Path(directory))
    console.print("hot messages, with a tier and without", style="dim")
    _hot(report, 20_000 if quick else 200_000, 1 if quick else PAIRS)


@asynccontextmanager
async def _opened(directory: Path, topic: Topic, *, has_tier: bool = True) -> AsyncIterator[Broker]:
    tier = TierSettings((directory / "cold").as_uri(), max_age_seconds=1.0) if has_tier else None
    settings = BrokerSettings(directory / "data", retention_interval_seconds=0.2, tier=tier)
    broker = await Broker.open(settings, SystemClock())
    try:
        await broker.topology.put_topic(topic)
        yield broker
    finally:
        await broker.close()


async def _until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{what} did not come about")
        await asyncio.sleep(0.05)


async def _cold(report: Report, directory: Path, count: int) -> None:
    async with _opened(directory, TOPIC) as broker:
        messages: list[Message] = list(telemetry(count))
        await append_all(broker, messages)
        messages.clear()
        queue = broker.engine.dispatcher.queue(TOPIC.name, 0)
        await _until(lambda: queue.min_offset == count, "a topic that is cold")
        goal = Goal(250_000)
        for what, read, of_goal in (("pull", _pulled, None), ("runs of records", _runs, goal)):
            gc.collect()
            begun = time.process_time()
            found = await read(broker, count)
            cpu = time.process_time() - begun
            if found != count:
                raise BenchmarkError(f"{found} cold messages were read of {count}")
            report.add(f"cold {what} through a broker", "msg/CPU-s", count / cpu, goal=of_goal)


async def _pulled(broker: Broker, count: int) -> int:
    first = found = 0
    while first < count:
        pulled = await broker.messages.pull(TOPIC.name, 0, first, PAGE)
        found, first = found + len(pulled.messages), pulled.next_offset
    return found


async def _runs(broker: Broker, count: int) -> int:
    first = found = 0
    while first < count:
        run = decode_run(await broker.messages.records(TOPIC.name, 0, first, count, RUN_BYTES))
        found, first = found + len(run), run.next_offset
    return found


# -- without a broker --------------------------------------------------------------------------------------------


def _firsts(report: Report, directory: Path) -> None:
    folder = open_objects((directory / "cold").as_uri())
    root = next(each.path for each in folder.objects("") if "/_delta_log/" in each.path).partition("/_delta_log/")[0]
    report.add("first cold message of a folder", "ms", _first(folder, root), goal=Goal(50, at_most=True))
    with _moto() as store:
        for each in list(folder.objects("")):
            store.put_new(each.path, folder.get(each.path))
        report.add("first cold message of moto's S3", "ms", _first(store, root), goal=Goal(150, at_most=True))
    _filters(report, folder, root)


def _cold_topic(objects: ObjectStore, root: str) -> ColdTopic:
    table = TopicTable(objects, root, SystemClock(), random.Random(1))
    cold = ColdTopic(table, SegmentReader(objects), 0)
    cold.refresh()
    return cold


def _first(objects: ObjectStore, root: str) -> float:
    """Milliseconds to the first page of a reader that has read nothing; the table is known."""
    taken = []
    chance = random.Random(2)
    for _ in range(FIRSTS):
        cold = _cold_topic(objects, root)
        bounds = cold.bounds(0)
        assert bounds is not None, "the topic is cold"
        offset = chance.randrange(bounds.first, bounds.next_offset)
        begun = time.perf_counter()
        [message] = cold.read(0, offset, 1).messages
        taken.append(1000 * (time.perf_counter() - begun))
        assert message.queue_offset == offset
    return statistics.median(taken)


@contextmanager
def _moto() -> Iterator[ObjectStore]:
    import boto3  # type: ignore[import-untyped]
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    keys = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    try:
        with mock.patch.dict("os.environ", keys):
            boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1").create_bucket(Bucket="bench")
            yield open_objects("s3://bench/tier", StoreOptions(endpoint=endpoint, region="us-east-1", allow_http=True))
    finally:
        server.stop()


def _filters(report: Report, objects: ObjectStore, root: str) -> None:
    """Add a tag of one message in a hundred: the messages decoded for each match."""
    wanted = compile_filter(FilterExpression(FilterKind.TAG, "worn"))
    cold = _cold_topic(objects, root)
    made = matches = offset = 0

    def counting(rows: Any) -> Any:
        nonlocal made
        made += len(rows)
        return to_messages(rows)

    with mock.patch.object(cold_reading, "to_messages", counting):
        while (page := cold.read(0, offset, PAGE, wanted)).next_offset > offset:
            matches, offset = matches + len(page.messages), page.next_offset
    report.add("bodies decoded for each match of a tag", "ratio", made / matches, goal=Goal(1, at_most=True))


# -- hot ---------------------------------------------------------------------------------------------------------


def _hot(report: Report, count: int, pairs: int) -> None:
    """Add appends and reads of a broker, in turns with and without a tier; the best, as others use the machine."""
    taken: dict[bool, list[float]] = {True: [], False: []}
    for number in range(pairs):
        for has_tier in (True, False) if number % 2 else (False, True):
            with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
                taken[has_tier].append(uvloop.run(_appended(Path(directory), count, has_tier=has_tier)))
    dearer = 100 * (min(taken[True]) / min(taken[False]) - 1)
    report.add("hot appends and reads, dearer with a tier", "%", dearer, goal=Goal(3, at_most=True))
    shown = ", ".join(f"{ours / theirs:.3f}" for ours, theirs in zip(taken[True], taken[False], strict=True))
    report.notes.append(f"hot messages with a tier by without one, {pairs} pairs: {shown}")


async def _appended(directory: Path, count: int, *, has_tier: bool) -> float:
    """CPU-seconds of the broker's process; the uploader's are its own."""
    async with _opened(directory, HOT, has_tier=has_tier) as broker:
        await append_all(broker, [*telemetry(1)])  # without the cost of a start
        if (tier := broker.tier) is not None:
            queue = broker.engine.dispatcher.queue(HOT.name, 0)
            await _until(lambda: tier.kept_from(queue) == 1, "a table")
        messages: list[Message] = list(telemetry(count))
        gc.collect()
        gc.freeze()
        begun = time.process_time()
        await append_all(broker, messages)
        first = 1
        while first <= count:
            first = (await broker.messages.pull(HOT.name, 0, first, PAGE)).next_offset
        cpu = time.process_time() - begun
        gc.unfreeze()
        return cpu
