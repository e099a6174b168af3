"""The message index: finds what was put, through sealing, restarts, lost power, full disks and damage."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from random import Random
from unittest.mock import patch

import pytest
from google_crc32c import value as crc32c
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from entrepot.broker.store import index_file, message_index
from entrepot.broker.store.index_file import IndexLayout
from entrepot.broker.store.message_index import HEAD_ROW, MessageIndex
from entrepot.broker.store.open_files import OpenFiles
from entrepot.domain.errors import CorruptedError
from tests.simulation.disk import SimulatedDisk
from tests.support.cases import cases
from tests.tiers.marks import scaled

ROOT = "/data"
SMALL = IndexLayout(slots=7, entries=50)
KEYS = [b"a", b"b", b"order-7", b"", "clé".encode(), b"x" * 300]
SAME_HASH = (b"k72115188", b"k41609228")
FAR_MS = 2**32 * 1000
TIMES = st.one_of(st.integers(0, 20_000), st.sampled_from([0, 1_000_000, FAR_MS, FAR_MS + 999, 3 * FAR_MS]))


class Record:
    """What the log has of it."""

    def __init__(self, offset: int, time_ms: int, keys: list[bytes]) -> None:
        self.offset, self.time_ms, self.keys = offset, time_ms, keys


def opened(
    disk: SimulatedDisk, rows: dict[str, bytes] | None = None, layout: IndexLayout = SMALL, log_begin: int = 0
) -> MessageIndex:
    index = MessageIndex(OpenFiles(disk, ROOT), layout)
    index.restore(rows or {})
    index.drop_before(log_begin)
    return index


def sync(disk: SimulatedDisk, index: MessageIndex) -> None:
    """What the checkpoint does before its rows count."""
    for path in index.dirty_files:
        disk.sync_file(path)
    index.dirty_files = set()
    for directory in ("/", ROOT, index.directory):
        disk.sync_directory(directory)


def filled(disk: SimulatedDisk, entries: int = 170, layout: IndexLayout = SMALL) -> MessageIndex:
    """Record n is at offset 10 n, stored at second n, and has key n % 6."""
    index = opened(disk, layout=layout)
    for number in range(entries):
        index.put(KEYS[number % 6], number * 10, number * 1000)
    index.flush(entries * 10)
    return index


def offsets_of(key: bytes, entries: int = 170) -> list[int]:
    return [n * 10 for n in range(entries) if KEYS[n % 6] == key][::-1]


class IndexMachine(RuleBasedStateMachine):
    """Against a list of records, of which a prefix is durable."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.records: list[Record] = []
        self.durable = self.end = 0
        self.log_begin = 0
        self.was_rebuilt = False
        self.index = opened(self.disk)
        self.rows: dict[str, bytes] = {}
        self.checkpoint: dict[str, bytes] = {}
        self.patches = [
            patch.object(index_file, "WALKED_LINKS", 5),
            patch.object(index_file, "CHUNK_ENTRIES", 7),
            patch.object(message_index, "FLUSH_ENTRIES", 20),
            patch.object(message_index, "BATCH_ENTRIES", 13),
        ]
        for each in self.patches:
            each.start()

    def teardown(self) -> None:
        for each in self.patches:
            each.stop()

    @initialize(walked=st.sampled_from([1, 5, 1000]))
    def vary(self, walked: int) -> None:
        index_file.WALKED_LINKS = walked  # type: ignore[misc]

    @rule(
        keys=st.lists(st.lists(st.sampled_from(KEYS), max_size=4), max_size=40), time_ms=TIMES, step=st.integers(1, 9)
    )
    def append(self, keys: list[list[bytes]], time_ms: int, step: int) -> None:
        for number, some in enumerate(keys):
            record = Record(self.end, time_ms + number * 400, some)
            self.records.append(record)
            self.end += step
            self.put(record)

    @rule(part=st.floats(0, 1), flushes=st.booleans())
    def advance(self, part: float, flushes: bool) -> None:
        self.durable += int((self.end - self.durable) * part)
        if flushes:
            self.index.flush(self.durable)
        else:
            self.index.advance(self.durable)

    @rule(after=st.integers(0, 4))
    def flush_to_a_full_disk(self, after: int) -> None:
        writes = 0

        def fault(operation: str, path: str) -> OSError | None:
            nonlocal writes
            writes += operation == "write"
            return OSError(errno.ENOSPC, "full") if operation == "write" and writes > after else None

        self.disk.fault = fault
        self.durable = self.end
        self.index.advance(self.durable)
        with suppress(OSError):
            self.index.flush(self.durable)
        self.disk.fault = lambda operation, path: None

    @rule(flushes=st.booleans())
    def take_checkpoint(self, flushes: bool) -> None:
        """Rows by their changes are the rows."""
        if flushes:
            self.index.flush(self.durable)
        for name, row in self.index.changed_rows().items():
            if row is None:
                self.rows.pop(name, None)
            else:
                self.rows[name] = row
        assert self.rows == self.index.rows()
        assert not self.index.changed_rows()
        sync(self.disk, self.index)
        self.checkpoint = dict(self.rows)
        self.was_rebuilt = False

    @rule(seed=st.integers(0, 2**32), power=st.booleans(), entries=st.sampled_from([1, 30, 50]))
    def restart(self, seed: int, power: bool, entries: int) -> None:
        self.disk = self.disk.crash(Random(seed)) if power else self.disk.restart()
        self.index = opened(self.disk, self.checkpoint, IndexLayout(7, entries), self.log_begin)
        self.rows = dict(self.checkpoint)
        if not self.index.is_intact(every_byte=True):
            assert self.was_rebuilt, "since the checkpoint: nothing else may harm what it has"
            self.index.reset()
        self.lose_the_tail()
        self.replay()

    @rule()
    def rebuild(self) -> None:
        self.index.reset()
        assert self.index.is_intact()
        assert set(self.index.rows()) == {HEAD_ROW}
        self.was_rebuilt = True
        self.lose_the_tail()
        self.replay()

    @precondition(lambda self: self.records)
    @rule(part=st.floats(0, 1))
    def shorten_the_log(self, part: float) -> None:
        self.log_begin = max(self.log_begin, int(self.durable * part))
        self.index.drop_before(self.log_begin)
        self.records = [r for r in self.records if r.offset >= self.log_begin]

    @rule(key=st.sampled_from(KEYS), low=TIMES, high=TIMES, before=st.integers(0, 1000))
    def find_some(self, key: bytes, low: int, high: int, before: int) -> None:
        found = list(self.index.find(key, low, high, before))
        assert found == sorted(set(found), reverse=True)
        matching = [r for r in self.durable_records(key) if r.offset < before]
        assert set(found) >= {r.offset for r in matching if low <= r.time_ms <= high}
        assert set(found) <= {r.offset for r in matching}

    @rule(key=st.sampled_from(KEYS), part=st.integers(1, 20), step=st.integers(1, 30))
    def find_while_it_grows(self, key: bytes, part: int, step: int) -> None:
        expected = [r.offset for r in self.durable_records(key)][::-1]
        search = self.index.find(key)
        found = list(islice(search, part))
        self.append([[key]] * step, 5, 3)
        self.durable = self.end
        self.index.flush(self.durable)
        assert [*found, *search] == expected

    @invariant()
    def all_is_found(self) -> None:
        for key in KEYS:
            assert list(self.index.find(key)) == [r.offset for r in self.durable_records(key)][::-1]

    @invariant()
    def nothing_is_on_disk_before_its_record(self) -> None:
        assert self.index.indexed_until <= max(self.durable, 0)

    def put(self, record: Record) -> None:
        for key in record.keys:
            self.index.put(key, record.offset, record.time_ms)

    def lose_the_tail(self) -> None:
        self.records = [r for r in self.records if r.offset < self.durable]
        self.end = max(self.durable, self.records[-1].offset + 1 if self.records else 0)

    def replay(self) -> None:
        for record in self.records:
            self.put(record)
        self.index.advance(self.durable)

    def durable_records(self, key: bytes) -> list[Record]:
        return [r for r in self.records if r.offset < self.durable and key in r.keys]


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = settings(stateful_step_count=30)


# -- searching ---------------------------------------------------------------------------------------------------------


def test_what_is_not_durable_is_not_found():
    index = opened(SimulatedDisk())
    index.put(b"a", 0, 0)
    index.put(b"a", 10, 0)
    assert list(index.find(b"a")) == []
    index.advance(10)
    assert list(index.find(b"a")) == [0]
    index.flush(10)
    assert (index.indexed_until, list(index.find(b"a"))) == (1, [0])


def test_going_on_from_the_last_offset():
    index = filled(SimulatedDisk())
    found: list[int] = []
    while some := list(islice(index.find(b"b", before_offset=(found or [9999])[-1]), 4)):
        found += some
    assert found == offsets_of(b"b")


def test_keys_of_one_hash_are_candidates_for_each_other():
    first, second = SAME_HASH
    assert crc32c(first) == crc32c(second)
    index = opened(SimulatedDisk())
    for offset, key in enumerate([first, second, b"other"]):
        index.put(key, offset, 0)
    index.advance(3)
    assert list(index.find(first)) == [1, 0], "pending ones too: the record decides"
    index.flush(3)
    assert list(index.find(first)) == list(index.find(second)) == [1, 0]


@cases("times", [[50_000, 10_500, 60_000], [0, 5 * FAR_MS, 7 * FAR_MS], [FAR_MS, 0, 2 * FAR_MS]])
@cases("flushed", [True, False])
def test_the_sieve_of_times_loses_nothing(times: list[int], flushed: bool):
    """Clocks are set back, and seconds have their ends."""
    index = opened(SimulatedDisk())
    for offset, time_ms in enumerate(times):
        index.put(b"a", offset, time_ms)
    index.advance(3)
    if flushed:
        index.flush(3)
    for offset, time_ms in enumerate(times):
        for low, high in ((time_ms, time_ms), (time_ms - 1, time_ms + 1), (0, time_ms), (time_ms, None)):
            assert offset in index.find(b"a", low, high)
    assert list(index.find(b"a", max(times) + 1)) == []
    assert list(index.find(b"a", 0, min(times) - 1)) == []


def test_a_long_chain_is_scanned():
    index = opened(SimulatedDisk(), layout=IndexLayout(3, 200_000))
    count = 150_000
    for number in range(count):
        index.put(b"hot" if number % 2 else b"cold", number, 1000 * number)
    index.flush(count)
    assert list(index.find(b"hot")) == list(range(count - 1, 0, -2))
    assert list(index.find(b"hot", 3_000, 7_000)) == [7, 5, 3]
    assert list(index.find(b"hot", before_offset=6)) == [5, 3, 1]


def test_a_search_ends_where_the_file_goes():
    for end in (MessageIndex.reset, MessageIndex.close, lambda index: index.drop_before(1700)):
        disk = SimulatedDisk()
        index = filled(disk)
        search, unbegun = index.find(b"a"), index.find(b"a")
        first = next(search)
        end(index)
        assert [first, *search] == offsets_of(b"a")[:1]
        assert list(unbegun) == []
    assert not [path for path in disk.files() if "/index/" in path], "reading makes no file"


# -- writing -----------------------------------------------------------------------------------------------------------


def test_records_out_of_order_are_an_error():
    index = opened(SimulatedDisk())
    for offset in (5, 7, 6):
        index.put(b"a", offset, 0)
    with pytest.raises(CorruptedError):
        index.flush(8)


def test_an_error_of_the_disk_is_not_taken_for_want_of_space():
    disk = SimulatedDisk()
    index = opened(disk)
    for offset in range(message_index.FLUSH_ENTRIES):
        index.put(b"a", offset, 0)
    disk.fault = lambda operation, path: OSError(errno.EIO, "broken") if operation == "write" else None
    with pytest.raises(OSError):
        index.advance(message_index.FLUSH_ENTRIES)


@pytest.mark.parametrize(("slots", "entries"), [(0, 1), (1, 0), (2**32, 1), (1, 2**32)])
def test_sizes_that_do_not_fit_the_fields_are_refused(slots: int, entries: int):
    with pytest.raises(ValueError):
        IndexLayout(slots, entries)


def test_sealing_changes_the_row_and_the_file():
    index = filled(SimulatedDisk(), 50)
    index.changed_rows()
    index.dirty_files = set()
    index.put(b"a", 500, 0)
    index.flush(501)
    names = {f"{0:020d}", f"{1:020d}"}
    assert index.changed_rows().keys() == {*names, HEAD_ROW}
    assert index.dirty_files == {f"{ROOT}/index/{name}" for name in names}


def test_a_seal_without_room_changes_no_row() -> None:
    disk = SimulatedDisk()
    index = opened(disk, layout=IndexLayout(slots=7, entries=1))
    index.put(b"a", 0, 0)
    index.flush(1)
    index.put(b"a", 1, 0)
    rows = index.rows()
    index.changed_rows()
    disk.fault = lambda operation, path: OSError(errno.ENOSPC, "full") if operation == "write" else None
    with suppress(OSError):
        index.flush(2)
    assert index.rows() == rows, "the file is as it was"
    assert not index.changed_rows()
    disk.fault = lambda operation, path: None
    index.flush(2)
    assert list(index.find(b"a")) == [1, 0]


def test_a_record_half_in_the_files_is_put_again():
    """The disk was full between its keys: what is kept then must not say that the record is done."""
    disk = SimulatedDisk()
    index = filled(disk, 49)
    for key in (b"a", b"b"):
        index.put(key, 490, 0)
    disk.fault = lambda operation, path: OSError(errno.ENOSPC, "full") if path.endswith("1") else None
    with pytest.raises(OSError):
        index.flush(500)
    disk.fault = lambda operation, path: None
    assert index.indexed_until == 490
    assert index.is_intact()
    after = opened(disk.copy(), index.rows())
    for number in range(49):
        after.put(KEYS[number % 6], number * 10, number * 1000)
    for key in (b"a", b"b"):
        after.put(key, 490, 0)
    for each in (index, after):
        each.flush(500)
        assert [next(each.find(key)) for key in (b"a", b"b")] == [490, 490]
        assert each.indexed_until == 491


def test_files_are_removed_with_their_part_of_the_log():
    disk = SimulatedDisk()
    index = filled(disk)
    index.changed_rows()
    index.drop_before(505)
    assert sorted(path[-2:] for path in disk.files(f"{ROOT}/index/")) == ["01", "02", "03"]
    assert index.changed_rows().keys() == {f"{0:020d}", HEAD_ROW}
    assert list(index.find(b"a")) == [offset for offset in offsets_of(b"a") if offset >= 505]
    index.drop_before(10_000)
    assert not disk.files(f"{ROOT}/index/")
    index.put(b"a", 20, 0)
    index.put(b"a", 10_000, 0)
    index.flush(10_001)
    assert list(index.find(b"a")) == [10_000]
    assert index.rows().keys() == {f"{4:020d}", HEAD_ROW}


# -- damage ------------------------------------------------------------------------------------------------------------


def answers(index: MessageIndex) -> Iterator[list[int] | None]:
    for key in KEYS:
        try:
            yield list(index.find(key))
        except CorruptedError:
            yield None


@pytest.mark.scaled
def test_any_flipped_bit_of_a_sealed_file_is_found():
    disk = SimulatedDisk()
    rows = filled(disk).rows()
    path = f"{ROOT}/index/{1:020d}"
    layout = IndexLayout(11, 20)  # what is settled for new files is nothing to old ones
    for bit in range(0, len(disk.files()[path]) * 8, scaled(7, 1)):
        disk.flip(path, bit)
        index = opened(disk, rows, layout)
        assert not index.is_intact(every_byte=True), bit
        assert list(answers(index)) == [None] * 6, bit
        disk.flip(path, bit)
    assert list(answers(opened(disk, rows, layout))) == [offsets_of(key) for key in KEYS]


@cases("number", range(4))
@cases("how", ["delete", "cut", "empty", "flip"])
def test_a_corrupted_file_is_found_and_derived_anew(number: int, how: str):
    disk = SimulatedDisk()
    index = filled(disk)
    rows = index.rows()
    sync(disk, index)
    path = f"{ROOT}/index/{number:020d}"
    if how == "delete":
        disk.delete(path)
    elif how == "flip":
        disk.flip(path, (index_file.HEADER_SIZE + 7 * 4) * 8 + 77)
    else:
        disk.put(path, disk.files()[path][:-1] if how == "cut" else b"")
    index = opened(disk, rows)
    assert index.is_intact() == (how == "flip" and number < 3), "sealed files are only looked at"
    assert not index.is_intact(every_byte=True)
    assert list(answers(index)) == [None] * 6
    assert (path in disk.files()) == (how != "delete"), "looking makes no file"
    index.reset()
    for entry in range(170):
        index.put(KEYS[entry % 6], entry * 10, entry * 1000)
    index.flush(1700)
    assert list(answers(index)) == [offsets_of(key) for key in KEYS]
    assert not index.rows().keys() & rows.keys() - {HEAD_ROW}, "a new file is never taken for an old one"
    assert list(answers(opened(disk, index.rows()))) == [offsets_of(key) for key in KEYS]


def test_damage_to_an_open_file_is_an_error_or_another_candidate():
    disk = SimulatedDisk()
    index = filled(disk)
    rng = Random(7)
    for _ in range(1500):
        path = rng.choice(sorted(disk.files(f"{ROOT}/index/")))
        file = disk.entries[path]
        assert file is not None
        bit = rng.randrange(len(file.data) * 8)
        disk.flip(path, bit)
        for found in answers(index):
            assert found is None or found == sorted(set(found), reverse=True)
        disk.flip(path, bit)
    assert list(answers(index)) == [offsets_of(key) for key in KEYS]


def test_a_link_that_does_not_fall_is_an_error_and_not_a_circle():
    disk = SimulatedDisk()
    index = opened(disk)
    index.put(b"a", 0, 0)
    index.put(b"a", 1, 0)
    index.flush(2)
    file = disk.entries[f"{ROOT}/index/{0:020d}"]
    assert file is not None
    assert file.data[-4:] == b"\0\0\0\1"
    file.data[-24:-20] = b"\0\0\0\2"  # 2 -> 1 -> 2
    with pytest.raises(CorruptedError):
        list(index.find(b"a"))


def test_rows_that_cannot_be_read_are_refused_and_forgotten():
    disk = SimulatedDisk()
    rows = filled(disk).rows()
    name = f"{2:020d}"
    corrupted = [
        {**rows, HEAD_ROW: b""},
        {**rows, HEAD_ROW: bytes(28)},
        {**rows, name: b""},
        {**rows, "odd": rows[name]},
    ]
    for bit in range(len(rows[name]) * 8):
        row = bytearray(rows[name])
        row[bit // 8] ^= 1 << bit % 8
        corrupted.append({**rows, name: bytes(row)})
    for bad in corrupted:
        index = MessageIndex(OpenFiles(disk.copy(), ROOT), SMALL)
        with pytest.raises(CorruptedError):
            index.restore(bad)
        index.reset()
        gone = {key: row for key, row in index.changed_rows().items() if key != HEAD_ROW}
        assert gone == dict.fromkeys(bad.keys() - {HEAD_ROW})


# -- losing power ------------------------------------------------------------------------------------------------------


def test_rows_kept_without_their_files_do_not_pass():
    """What was not synced may be gone; then the caller is told, and nothing wrong is found."""
    passed = 0
    for seed in range(200):
        disk = SimulatedDisk()
        index = filled(disk, 40)
        sync(disk, index)
        for number in range(40, 75):
            index.put(KEYS[number % 6], number * 10, number * 1000)
        index.flush(750)
        after = opened(disk.crash(Random(seed)), index.rows())
        if after.is_intact(every_byte=True):
            assert list(answers(after)) == [offsets_of(key, 75) for key in KEYS]
            passed += 1
        else:
            for found, key in zip(answers(after), KEYS, strict=True):
                assert found is None or found == offsets_of(key, 75)
    assert 0 < passed < 200


def test_files_behind_the_checkpoint_are_removed():
    disk = SimulatedDisk()
    index = filled(disk, 40)
    rows = index.rows()
    for number in range(40, 170):
        index.put(KEYS[number % 6], number * 10, number * 1000)
    index.flush(1700)
    expected = index.rows()
    assert len(disk.files(f"{ROOT}/index/")) == 4
    index = opened(disk, rows)
    assert len(disk.files(f"{ROOT}/index/")) == 1
    assert list(index.find(b"a")) == offsets_of(b"a", 40)
    for number in range(170):
        index.put(KEYS[number % 6], number * 10, number * 1000)
    index.flush(1700)
    assert list(answers(index)) == [offsets_of(key) for key in KEYS]
    assert index.rows() == expected, "what was there is not put twice"
    opened(disk)
    assert not disk.files(f"{ROOT}/index/")
