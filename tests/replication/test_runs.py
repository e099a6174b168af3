"""Runs: a log cut at its records and put together again is the same log; a corrupted byte is never taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.replication.files import runs
from entrepot.broker.replication.files.runs import decode_runs, encode_run, read_run
from entrepot.broker.store.commit_log import CommitLog
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.broker.store.record import RecordHeader, RecordKind
from entrepot.domain.errors import CorruptedError
from entrepot.domain.message import Message
from entrepot.domain.replication.epochs import EpochStart
from tests.simulation.disk import SimulatedDisk

LAYOUT = CommitLogLayout(segment_size_bytes=4096, preallocate_bytes=4096, reserve_bytes=0)
SIZES = st.lists(st.integers(0, 1500), min_size=1, max_size=30)


def filled(sizes: list[int]) -> tuple[SimulatedDisk, CommitLog]:
    """A log whose records have these sizes of bodies, some of them written while earlier ones were being synced."""
    disk = SimulatedDisk()
    log = CommitLog(disk, "/data", LAYOUT)
    for number, size in enumerate(sizes):
        if number % 5 == 0:
            log.append_payload(RecordKind.EPOCH, EpochStart(number, 1, 0).payload(), 1)
        log.append_new(Message("t", bytes(size), queue_id=0), number, 1)
        if number % 3 == 0:
            log.write()
            log.durable_offset = log.written_offset
    log.write()
    return disk, log


def whole(log: CommitLog, most: int) -> list[bytes]:
    """All of a log as items of about so many bytes."""
    items, at = [], 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runs, "RUN_BYTES", most)
        while at < log.written_offset:
            data = read_run(log, at, log.written_offset)
            assert data
            items.append(encode_run(at, 7, data))
            at += len(data)
    return items


@given(SIZES, st.integers(100, 5000))
def test_a_log_is_copied_byte_for_byte(sizes: list[int], most: int) -> None:
    _, log = filled(sizes)
    copy = CommitLog(SimulatedDisk(), "/data", LAYOUT)
    starts: list[EpochStart] = []
    for item in whole(log, most):
        for run in decode_runs(item, LAYOUT.segment_size_bytes):
            assert run.confirmed == 7
            assert run.floor <= run.offset, "what it builds on was there before it"
            copy.append_run(run.offset, run.data)
            starts += run.starts
    assert copy.end == log.end
    records = [[(header.kind, header.commit_log_offset) for _, _, header in each.scan(0)] for each in (log, copy)]
    assert records[0] == records[1]
    assert [start.epoch for start in starts] == list(range(0, len(sizes), 5))
    segments = range(0, log.end, LAYOUT.segment_size_bytes)
    for start in segments:
        end = min(start + LAYOUT.segment_size_bytes, log.end)
        assert log.read_span(start, end) == copy.read_span(start, end)


@given(SIZES, st.data())
def test_a_corrupted_byte_is_found(sizes: list[int], data: st.DataObject) -> None:
    _, log = filled(sizes)
    item = data.draw(st.sampled_from(whole(log, 2000)))
    records = [(at, header) for at, header in _records(log)]
    at = data.draw(st.integers(17, len(item) - 1))
    place = int.from_bytes(item[1:9], "big") + at - 17
    is_covered = any(
        start <= place < start + (40 if header.kind == RecordKind.PADDING else header.length)
        for start, header in records
    )
    corrupted = item[:at] + bytes((item[at] ^ 1 << data.draw(st.integers(0, 7)),)) + item[at + 1 :]
    if is_covered:
        with pytest.raises(CorruptedError):
            decode_runs(corrupted, LAYOUT.segment_size_bytes)


def _records(log: CommitLog) -> list[tuple[int, RecordHeader]]:
    return [(header.commit_log_offset, header) for _, _, header in log.scan(0)]
