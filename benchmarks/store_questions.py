"""Questions to the store: by sub-topic, by tag, by key."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np
import uvloop
from rich.console import Console

from benchmarks.filter_index import ENTRIES, NAMES, RARE, RARE_MATCHES, QueueFile, best, make_entries
from benchmarks.report import Goal, Report
from benchmarks.store_parts import GROUP, POP_BATCH, QUEUES, TOPIC, append_all, make_messages, timed
from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store import record_reading
from entrepot.broker.store.disk import OsDisk
from entrepot.broker.store.filter_index import FilterIndex
from entrepot.broker.store.hash_scan import HashSet, scan
from entrepot.broker.store.open_files import OpenFiles
from entrepot.broker.store.read_plan import reads_of
from entrepot.broker.store.record_reading import Entry
from entrepot.broker.store.sub_topics import SubTopicDictionary
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import Message
from entrepot.domain.ports import PopRequest
from entrepot.domain.query import MessageQuery
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock

KEYS: Final = 10_000
EVERY: Final = 100
"""Interval of messages with the wanted tag."""
WILDCARD: Final = "plant/+/line/7"


def add_to(report: Report, console: Console, *, quick: bool) -> None:
    console.print("filters and queries", style="dim")
    _by_sub_topic(report)
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        uvloop.run(_by_tag(report, Path(directory), 100_000 if quick else 500_000))
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        uvloop.run(_by_key(report, Path(directory), 100_000 if quick else 1_000_000))


def _by_sub_topic(report: Report) -> None:
    dictionary = SubTopicDictionary()
    dictionary.restore(f"plant/{n % 40}/line/{n}" for n in range(NAMES))
    entries = make_entries(np.random.default_rng(1), np.fromiter(dictionary.names, np.uint64))
    wanted = dictionary.hashes_matching(WILDCARD)
    seconds, _ = best(lambda: scan(memoryview(entries), wanted))
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        path = Path(directory, "queue")
        path.write_bytes(entries)
        queue, files = QueueFile(path), OpenFiles(OsDisk(), directory)
        index = FilterIndex(files, queue)
        while index.build_next():
            pass
        exact_seconds, (found, _) = best(lambda: index.matching_offsets(HashSet.of_names(RARE), 0, ENTRIES))
        assert len(found) == RARE_MATCHES, "the index has found all"
        files.close()
        queue.close()
    what = f"one sub-topic, {RARE_MATCHES} matches of {ENTRIES:,} entries"
    report.add(what, "ms", exact_seconds * 1000, goal=Goal(5, at_most=True))
    report.add(f"scan for {WILDCARD}", "entries/s", ENTRIES / seconds, goal=Goal(100_000_000))


async def _by_tag(report: Report, directory: Path, count: int) -> None:
    broker = await _filled(directory, [_tagged(m, n) for n, m in enumerate(make_messages(count))])
    read = 0

    def counted(entries: list[Entry], segment_size: int) -> Any:
        nonlocal read
        read += len(entries)
        return reads_of(entries, segment_size)

    wanted = FilterExpression(FilterKind.TAG, "wanted")
    delivered = 0

    async def consume() -> None:
        nonlocal delivered
        while deliveries := await broker.consumption.pop(PopRequest(TOPIC, GROUP, POP_BATCH, filter=wanted)):
            delivered += len(deliveries)
            await broker.consumption.acknowledge(TOPIC, GROUP, [delivery.receipt_handle for delivery in deliveries])

    with mock.patch.object(record_reading, "reads_of", counted):
        _, wall = await timed(consume)
    assert delivered == count // EVERY, "the filter lets the wanted ones pass"
    await broker.close()
    what = f"pop with a tag that one of {EVERY} has"
    report.add(what, "msg looked at/s", count / wall)
    report.add(what, "msg/s", delivered / wall)
    report.add(f"{what}: records read for one delivered", "", read / delivered, goal=Goal(1.1, at_most=True))


def _tagged(message: Message, number: int) -> Message:
    tag = "wanted" if number % EVERY == 0 else "other"
    return replace(message, queue_id=number // EVERY % QUEUES, tag=tag, filter_hash=filter_hash("", tag), sub_topic="")


async def _by_key(report: Report, directory: Path, count: int) -> None:
    made = [replace(message, keys=(f"order-{n % KEYS}",)) for n, message in enumerate(make_messages(count))]
    broker = await _filled(directory, made)
    made.clear()
    taken = []
    for number in range(50):
        begun = time.perf_counter()
        page = await broker.finder.query(MessageQuery(TOPIC, f"order-{number * 97 % KEYS}", limit=32))
        taken.append((time.perf_counter() - begun) * 1000)
        assert len(page.messages) == min(32, count // KEYS), "the query finds what is there"
    await broker.close()
    report.add(f"the newest 32 with a key, of {count:,} messages", "ms", sorted(taken)[len(taken) // 2])


async def _filled(directory: Path, messages: list[Message]) -> Broker:
    broker = await Broker.open(BrokerSettings(directory), SystemClock())
    await broker.topology.put_topic(Topic(TOPIC, queues=QUEUES))
    await append_all(broker, messages)
    return broker
