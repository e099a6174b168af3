"""Large records are written slice by slice: whatever is cut off between two slices is no record after a crash."""

from __future__ import annotations

import pytest

from entrepot.broker.store import commit_log as module
from entrepot.broker.store.commit_log import CommitLog
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.broker.store.record import LARGE_BODY
from tests.simulation.disk import SimulatedDisk
from tests.support.cases import cases
from tests.support.seed import seeded
from tests.support.stores.steps import message

ROOT = "/data"
LAYOUT = CommitLogLayout(segment_size_bytes=4 << 20, preallocate_bytes=1 << 20, reserve_bytes=4096)
SLICE = 64 << 10
BODIES = [b"first", bytes(LARGE_BODY), b"between", seeded().randbytes(LARGE_BODY + 12_345), b"x" * (SLICE - 1), b"last"]


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AHEAD_BYTES", SLICE)


def filled(disk: SimulatedDisk) -> CommitLog:
    log = CommitLog(disk, ROOT, LAYOUT)
    for place, body in enumerate(BODIES):
        log.append_new(message("t", body, 0), place, 1)
    return log


def bodies(disk: SimulatedDisk) -> tuple[list[bytes], int]:
    """The bodies that a start finds, and the end of the last record."""
    log = CommitLog(disk, ROOT, LAYOUT)
    found = [(header.commit_log_offset, header.length) for _, _, header in log.scan(0)]
    log.durable_offset = log.scan_end
    read = [log.message_at(offset) for offset, _ in found]
    return [each.body for each in read if each is not None], log.scan_end


def test_slices_make_the_same_bytes_as_one_write() -> None:
    sliced, at_once = SimulatedDisk(), SimulatedDisk()
    log, other = filled(sliced), filled(at_once)
    slices = 0
    while log.write_ahead():
        slices += 1
        assert log.written_offset == 0, "it is always the end of a record"
    log.write()
    other.write()
    assert slices >= 8
    assert sliced.files() == at_once.files()
    assert log.written_offset == other.written_offset == log.end
    assert bodies(sliced) == (BODIES, log.end)


def test_records_may_come_between_two_slices() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    added = [b"%d" % number * 40_000 for number in range(9)]
    for place, body in enumerate(added, len(BODIES)):
        log.write_ahead()
        log.append_new(message("t", body, 0), place, 1)
    log.write()
    assert bodies(disk) == (BODIES + added, log.end)
    assert not log.write_ahead()


@cases("slices", range(12))
def test_a_crash_between_slices(slices: int) -> None:
    """All that was synced before is there; of the rest, whole records alone."""
    disk = SimulatedDisk()
    log = CommitLog(disk, ROOT, LAYOUT)
    log.append_new(message("t", b"synced", 0), 0, 1)
    log.write()
    for path in log.files_between(0, log.end):
        disk.sync_file(path)
    disk.sync_directory(log.directory)
    for directory in (ROOT, "/"):
        disk.sync_directory(directory)
    for place, body in enumerate(BODIES, 1):
        log.append_new(message("t", body, 0), place, 1)
    for _ in range(slices):
        log.write_ahead()
    found, _ = bodies(disk.crash(seeded()))
    assert found == [b"synced", *BODIES][: max(len(found), 1)]
