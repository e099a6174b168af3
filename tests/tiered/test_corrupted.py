"""A record that the disk has lost is one message that cannot be read: its topic goes cold, and is read behind it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from entrepot.broker.broker import Broker
from entrepot.domain.errors import Code, CorruptedError
from entrepot.domain.message import StoredMessage
from entrepot.protocols.wire.records import RecordColumns, decode_run
from tests.support.clock import ManualClock
from tests.support.waiting import until
from tests.tiered.test_tier import QUEUES, TOPIC, all_uploaded, gone, opened, published

COUNT = 300
CORRUPTED = 100


def spoil(directory: Path, body: bytes) -> None:
    """Change a byte of the record with a body, in the log's files."""
    for path in sorted((directory / "data").rglob("*")):
        if path.is_file() and (at := path.read_bytes().find(body)) >= 0:
            descriptor = os.open(path, os.O_RDWR)
            os.pwrite(descriptor, b"?", at)
            os.close(descriptor)
            return
    raise AssertionError(f"{body!r} is in no file")


async def read_on(store: Broker, first: int) -> list[int]:
    """Offsets of queue 0 as pages have them, each one that is refused alone passed over."""
    found = []
    while first < COUNT:
        try:
            page = await store.messages.read("factory", 0, first, 64)
        except CorruptedError:
            first += 1
            continue
        found += [message.queue_offset for message in page]
        first = page[-1].queue_offset + 1
    return found


async def test_a_corrupted_record_stops_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock, max_age_seconds=3600.0, segment_bytes=64 << 20) as store:
        await store.topology.put_topic(TOPIC)
        await published(store, clock, 0, COUNT)
        spoil(tmp_path, b"%d " % (CORRUPTED * QUEUES) + bytes(1000))
    async with opened(tmp_path, clock) as store:
        others = [offset for offset in range(COUNT) if offset != CORRUPTED]
        assert await read_on(store, 0) == others, "the disk"
        await all_uploaded(store, COUNT)
        assert store.tier is not None and not any(told.problem for told in store.tier.progress.values())
        await gone(store, clock)
        assert await read_on(store, 0) == others, "the object store"
        with pytest.raises(CorruptedError) as refused:
            await store.messages.pull("factory", 0, CORRUPTED, 10)
        assert refused.value.code is Code.MESSAGE_CORRUPTED
        first = 0
        columns: list[RecordColumns] = []
        while first < COUNT:
            run = decode_run(await store.messages.records("factory", 0, first, COUNT, 64 << 10))
            columns.append(RecordColumns(run))
            first = run.next_offset
        assert [offset for each in columns for offset in each.queue_offsets.tolist()] == others
        assert sum(len(each.corrupted) for each in columns) == 1, "readers of runs see it in its place"
        handed: list[StoredMessage] = []
        tail = store.messages.tail("factory", 0, 0, handed.extend)
        await until(lambda: tail.next_offset == COUNT, "the tail comes to the end")
        tail.close()
        assert [message.queue_offset for message in handed] == others
