"""The filter index against a list of hashes; whatever happens to its files, the answers are the same."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.store import filter_index, hash_scan
from entrepot.broker.store.carried_entries import ENTRY_SIZE
from entrepot.broker.store.filter_index import FilterIndex
from entrepot.broker.store.hash_scan import HashSet, scan
from entrepot.broker.store.open_files import OpenFiles
from entrepot.broker.store.postings import Postings, are_postings_of, encode_postings, longest_postings
from entrepot.broker.store.queue_entries import ENTRY
from entrepot.domain.filter_hash import filter_hash
from tests.simulation.disk import SimulatedDisk

FEW = st.integers(0, 5) | st.just(2**48 - 1)
ANY = FEW | st.integers(0, 2**48 - 1) | st.integers(0, 3).map(lambda n: n << 16 | 5)
HASHES = st.lists(ANY, max_size=60)


def entries_of(hashes: Iterable[int]) -> bytes:
    return b"".join(ENTRY.pack(n * 300, 300, h << 16 | (n * 7 & 0xFFFF)) for n, h in enumerate(hashes))


class Queue:
    """A consume queue in memory."""

    topic = "t"
    queue_id = 3
    min_offset = 0

    def __init__(self, hashes: list[int], flushed: int | None = None) -> None:
        self.data = entries_of(hashes)
        self.visible_offset = len(hashes)
        self.flushed_entries = len(hashes) if flushed is None else flushed

    def raw(self, from_offset: int, count: int) -> bytes:
        return self.data[from_offset * ENTRY_SIZE : min(from_offset + count, self.visible_offset) * ENTRY_SIZE]


def all_of(index: FilterIndex, wanted: HashSet, start: int, limit: int, known: HashSet | None = None) -> list[int]:
    """Every answer, and that each call goes on where the last one ended."""
    found: list[int] = []
    while True:
        some, looked_until = index.matching_offsets(wanted, start, limit, known=known, budget=3)
        assert len(some) <= limit
        assert all(start <= offset < looked_until for offset in some)
        found += some
        if looked_until <= start:
            return found
        start = looked_until


def new_index(queue: Queue, per_file: int, disk: SimulatedDisk | None = None) -> FilterIndex:
    return FilterIndex(OpenFiles(disk or SimulatedDisk(), "/store"), queue, per_file)


def build_all(index: FilterIndex) -> int:
    built = 0
    while index.build_next():
        built += 1
    return built


@given(HASHES, st.lists(ANY, max_size=20), st.none() | st.lists(ANY, max_size=5), st.booleans())
def test_a_scan_finds_what_a_walk_finds(hashes: list[int], wanted: list[int], known: list[int] | None, is_view: bool):
    data = entries_of(hashes)
    entries = memoryview(b"x" + data)[1:] if is_view else bytearray(data)
    found = scan(entries, HashSet(wanted), None if known is None else HashSet(known))
    assert found.dtype == np.int64
    assert found.tolist() == [
        n for n, h in enumerate(hashes) if h in wanted or (known is not None and h and h not in known)
    ]


@given(HASHES, st.lists(st.lists(ANY, max_size=12), max_size=4), st.integers(0, 1 << 32))
def test_a_set_extended_is_the_set_made_at_once(hashes: list[int], parts: list[list[int]], seed: int):
    hash_set, members = HashSet(hashes), set(hashes)
    asked = np.array(
        [*hashes, *(h for part in parts for h in part), *Random(seed).sample(range(1 << 48), 5)], np.uint64
    )
    for part in parts:
        hash_set.table()
        before = hash_set.contains(asked).tolist()
        hash_set, old = hash_set.extended(part), hash_set
        assert old.contains(asked).tolist() == before
        members |= set(part)
        assert sorted(hash_set.hashes.tolist()) == sorted(members)
        assert hash_set.contains(asked).tolist() == [int(h) in members for h in asked]
        assert hash_set.table().sum() == len({h & 0xFFFF for h in members})


def test_large_sets_are_exact():
    rng = np.random.default_rng(7)
    hashes = rng.integers(1, 1 << 48, 120_000, dtype=np.uint64)
    wanted = HashSet(hashes[:60_000])
    assert len(wanted) >= hash_scan.MANY_HASHES
    data = entries_of(hashes[40_000:80_000].tolist())
    assert scan(data, wanted).tolist() == list(range(20_000))
    wanted = wanted.extended(hashes[60_000:70_000])
    assert scan(data, wanted).tolist() == list(range(30_000))
    assert scan(data, HashSet(), wanted).tolist() == list(range(30_000, 40_000))


def test_bytes_that_are_no_whole_entries_are_refused():
    with pytest.raises(ValueError, match="whole entries"):
        scan(bytes(ENTRY_SIZE + 1), HashSet([1, 2, 3]))


def test_a_set_of_names_is_what_entries_carry():
    entry = ENTRY.pack(0, 1, filter_hash("a/b", "tag"))
    assert scan(entry, HashSet.of_names("a/b", "c")).tolist() == [0]
    assert scan(ENTRY.pack(0, 1, filter_hash("", "tag")), HashSet.of_names("")).tolist() == [0]


@given(
    st.lists(FEW, max_size=60) | HASHES,
    st.lists(ANY, max_size=4),
    st.none() | st.lists(ANY, max_size=4),
    st.tuples(st.integers(1, 9), st.integers(0, 70), st.integers(1, 7), st.integers(0, 40), st.integers(0, 3)),
    st.integers(0, 9),
)
def test_answers_are_those_of_a_walk(
    hashes: list[int],
    wanted: list[int],
    known: list[int] | None,
    numbers: tuple[int, int, int, int, int],
    built: int,
):
    per_file, start, limit, min_offset, unflushed = numbers
    queue = Queue(hashes, max(0, len(hashes) - unflushed))
    queue.min_offset = min(min_offset, len(hashes))
    index = new_index(queue, per_file)
    for _ in range(built):
        index.build_next()
    expected = [
        n
        for n, h in enumerate(hashes)
        if n >= max(start, queue.min_offset) and (h in wanted or (known is not None and h and h not in known))
    ]
    known_set = None if known is None else HashSet(known)
    assert all_of(index, HashSet(wanted), start, limit, known_set) == expected
    assert index.matching_offsets(HashSet(wanted), start, 1000, known=known_set) == (
        expected,
        max(start, queue.min_offset, len(hashes) if start < len(hashes) else start),
    )
    assert index.matching_offsets(HashSet(wanted), start, 0) == ([], max(start, queue.min_offset))


@given(
    st.lists(FEW, min_size=30, max_size=60), st.sampled_from(["cut", "flip", "delete", "longer", "other"]), st.data()
)
def test_a_corrupted_postings_file_changes_no_answer_and_is_rebuilt(hashes: list[int], harm: str, data: st.DataObject):
    disk, queue = SimulatedDisk(), Queue(hashes)
    assert build_all(new_index(queue, 7, disk)) == len(hashes) // 7
    disk = disk.restart()
    files = disk.files("/store/filterindex")
    path = data.draw(st.sampled_from(sorted(files)))
    if harm == "cut":
        disk.put(path, files[path][: data.draw(st.integers(0, len(files[path]) - 1))])
    elif harm == "flip":
        disk.flip(path, data.draw(st.integers(0, len(files[path]) * 8 - 1)))
    elif harm == "delete":
        disk.delete(path)
    elif harm == "longer":
        disk.put(path, files[path] + b"\0")
    else:  # whole, but made of another file: an older queue of this name
        disk.put(path, encode_postings(entries_of([9] * 7)))
    index = new_index(queue, 7, disk)
    for wanted in (1, 2, 9):
        assert all_of(index, HashSet([wanted]), 0, 5) == [n for n, h in enumerate(hashes) if h == wanted]
    assert build_all(index) == 1
    assert disk.files("/store/filterindex") == files
    assert all_of(index, HashSet([1]), 0, 5) == [n for n, h in enumerate(hashes) if h == 1]
    assert not index.build_next()


def test_a_postings_file_that_goes_away_while_it_is_open_is_rebuilt(monkeypatch: pytest.MonkeyPatch):
    disk, queue = SimulatedDisk(), Queue([1, 2, 3] * 7)
    files = OpenFiles(disk, "/store")
    monkeypatch.setattr(filter_index, "OPEN_POSTINGS", 2)
    index = FilterIndex(files, queue, 7)
    build_all(index)
    for _ in range(2):
        assert all_of(index, HashSet([2]), 0, 5) == list(range(1, 21, 3))
    files.remove(index.directory)
    assert all_of(index, HashSet([2]), 0, 5) == list(range(1, 21, 3))
    assert build_all(index) == 3


def test_hashes_lie_in_many_blocks_between_fences(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("entrepot.broker.store.postings.FENCE_INTERVAL", 4)
    hashes = [n * n * 1_000_003 % (1 << 48) for n in range(100)] * 2
    index = new_index(Queue(hashes), 200)
    assert index.build_next()
    for place in range(100):
        assert index.matching_offsets(HashSet([hashes[place]]), 1, 9)[0] == [n for n in (place, place + 100) if n]
        assert index.matching_offsets(HashSet([hashes[place] + 1]), 0, 9)[0] == [0] * (not place and 1 in hashes)


def test_a_frequent_hash_is_scanned_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(filter_index, "LOOKUP_POSITIONS", 3)
    index = new_index(Queue([1, 2, 1, 2, 1, 1, 2, 3] * 3), 8)
    build_all(index)
    assert all_of(index, HashSet([1]), 3, 4) == [4, 5, 8, 10, 12, 13, 16, 18, 20, 21]
    assert all_of(index, HashSet([2, 3]), 3, 4) == [3, 6, 7, 9, 11, 14, 15, 17, 19, 22, 23]


def test_a_full_disk_is_borne_and_other_errors_are_not():
    disk, queue = SimulatedDisk(), Queue([1, 2] * 10)
    index = new_index(queue, 5, disk)
    number = errno.ENOSPC
    disk.fault = lambda operation, path: OSError(number, "full") if operation == "write" else None
    assert not index.build_next()
    assert disk.files("/store/filterindex") == {}
    assert all_of(index, HashSet([1]), 0, 5) == list(range(0, 20, 2))
    number = errno.EIO
    with pytest.raises(OSError, match="full"):
        index.build_next()
    disk.fault = lambda operation, path: None
    assert build_all(index) == 4


def test_what_is_dropped_is_not_built_again():
    disk, queue = SimulatedDisk(), Queue([1, 2] * 10)
    index = new_index(queue, 5, disk)
    build_all(index)
    all_of(index, HashSet([1]), 0, 5)
    queue.min_offset = 12
    index.drop_before(12)
    assert [path[-3:] for path in disk.files("/store/filterindex")] == ["200", "300"]
    assert not index.build_next()
    for found in (index, new_index(queue, 5, disk)):
        assert all_of(found, HashSet([1]), 0, 5) == [12, 14, 16, 18]


def test_a_reset_leaves_nothing_behind():
    disk, queue = SimulatedDisk(), Queue([1, 2] * 10)
    index = new_index(queue, 5, disk)
    build_all(index)
    all_of(index, HashSet([1]), 0, 5)
    index.reset()
    assert disk.files("/store/filterindex") == {}
    queue.data = entries_of([2, 1] * 10)
    assert build_all(index) == 4
    assert all_of(index, HashSet([1]), 0, 5) == list(range(1, 20, 2))


def test_postings_of_many_entries_are_in_order():
    """Above 65,536 entries the lowest bits of a hash are not sorted by; here that alone would mix two hashes."""
    for hashes in ([8, 9] * 40_000, Random(1).choices(range(1 << 48), k=1000) * 80):
        queue = Queue(hashes)
        disk = SimulatedDisk()
        index = new_index(queue, 80_000, disk)
        assert index.build_next()
        [(path, data)] = disk.files("/store/filterindex").items()
        assert len(data) <= longest_postings(80_000)
        assert are_postings_of(data, queue.data)
        postings = Postings(OpenFiles(disk, "/store"), path, 80_000)
        found = postings.positions(hashes[1], 80_000)
        assert found is not None
        assert found.tolist() == [n for n, h in enumerate(hashes) if h == hashes[1]]
