"""`python -m benchmarks.filter_index`: the filter index on 10 M entries in one queue, and the fallback scans.

The consume queue is a file on disk in the page cache, read as the store would; each figure is the best of some rounds.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from entrepot.broker.store.carried_entries import ENTRY_SIZE
from entrepot.broker.store.disk import OsDisk
from entrepot.broker.store.filter_index import FilterIndex
from entrepot.broker.store.hash_scan import HashSet, scan
from entrepot.broker.store.open_files import OpenFiles
from entrepot.broker.store.queue_entries import ENTRIES_PER_FILE
from entrepot.broker.store.sub_topics import SubTopicDictionary
from entrepot.domain.filter_hash import TAG_BITS, sub_topic_hash

Answer = TypeVar("Answer")

ENTRIES: Final = 10_000_000
NAMES: Final = 100_000
RARE: Final = "plant/rare"
RARE_MATCHES: Final = 100
ROUNDS: Final = 5
ENTRY_TYPE: Final = np.dtype([("place", ">u8"), ("size", ">u4"), ("hash", ">u8")])


class QueueFile:
    """The entries of one queue in one file, as an `EntrySource`."""

    topic = "bench"
    queue_id = 0
    min_offset = 0
    visible_offset = flushed_entries = ENTRIES

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def raw(self, from_offset: int, count: int) -> bytes:
        return os.pread(self._descriptor, count * ENTRY_SIZE, from_offset * ENTRY_SIZE)

    def close(self) -> None:
        os.close(self._descriptor)


def main() -> None:
    rng = np.random.default_rng(1)
    dictionary = SubTopicDictionary()
    dictionary.restore(f"plant/{n % 40}/line/{n}" for n in range(NAMES))
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        entries = make_entries(rng, np.fromiter(dictionary.names, np.uint64))
        path = Path(directory, "queue")
        path.write_bytes(entries)
        _show_scans(entries, dictionary)
        queue = QueueFile(path)
        files = OpenFiles(OsDisk(), directory)
        _show_index(FilterIndex(files, queue), FilterIndex(files, queue), dictionary)
        size = sum(file.stat().st_size for file in Path(directory, "filterindex").rglob("*") if file.is_file())
        print(f"postings take {size / ENTRIES:.1f} B an entry")
        files.close()
        queue.close()


def make_entries(rng: np.random.Generator, hashes: np.ndarray) -> bytes:
    entries = np.zeros(ENTRIES, ENTRY_TYPE)
    entries["place"] = np.arange(ENTRIES, dtype=np.uint64) * 300
    entries["size"] = 300
    chosen = rng.choice(hashes, ENTRIES)
    chosen[rng.choice(ENTRIES, RARE_MATCHES, replace=False)] = sub_topic_hash(RARE) >> TAG_BITS
    entries["hash"] = chosen << np.uint64(TAG_BITS) | rng.integers(0, 1 << TAG_BITS, ENTRIES, dtype=np.uint64)
    return entries.tobytes()


def _show_scans(entries: bytes, dictionary: SubTopicDictionary) -> None:
    """Scan in memory, in pieces of one file."""
    for what, wanted in _questions(dictionary):
        view = memoryview(entries)
        step = ENTRIES_PER_FILE * ENTRY_SIZE
        seconds, found = best(
            lambda view=view, step=step, wanted=wanted: sum(  # type: ignore[misc]
                scan(view[start : start + step], wanted).size for start in range(0, len(view), step)
            )
        )
        print(f"scan in memory, {what}: {ENTRIES / seconds / 1e6:,.0f} M entries/s, {found:,} found")


def _show_index(index: FilterIndex, reopened: FilterIndex, dictionary: SubTopicDictionary) -> None:
    for what, wanted in _questions(dictionary):
        seconds, (found, _end) = best(lambda wanted=wanted: index.matching_offsets(wanted, 0, ENTRIES))  # type: ignore[misc]
        print(f"index without postings, {what}: {ENTRIES / seconds / 1e6:,.0f} M entries/s, {len(found):,} found")
    durations = []
    start = time.perf_counter()
    while index.build_next():
        durations.append(time.perf_counter() - start)
        start = time.perf_counter()
    print(f"building {len(durations)} postings files: {sum(durations) / len(durations) * 1e3:.1f} ms each")
    rare = HashSet.of_names(RARE)
    start = time.perf_counter()
    reopened.matching_offsets(rare, 0, ENTRIES)
    print(f"exact name, postings read and verified first: {(time.perf_counter() - start) * 1e3:.1f} ms")
    seconds, (found, _end) = best(lambda: index.matching_offsets(rare, 0, ENTRIES))
    print(f"exact name, postings ready: {seconds * 1e3:.2f} ms, {len(found)} found")
    for count in (8, 64):
        few = HashSet(list(dictionary.names)[:count])
        seconds, (found, _end) = best(lambda few=few: index.matching_offsets(few, 0, ENTRIES))  # type: ignore[misc]
        print(f"{count} names, postings ready: {seconds * 1e3:.1f} ms, {len(found):,} found")
    broad = dictionary.hashes_matching("plant/7/#")
    seconds, (found, end) = best(lambda: index.matching_offsets(broad, ENTRIES // 2, 32))
    print(f"broad wildcard, the next 32: {seconds * 1e3:.2f} ms, {end - ENTRIES // 2:,} entries looked at")


def _questions(dictionary: SubTopicDictionary) -> Iterator[tuple[str, HashSet]]:
    yield "a single name", HashSet.of_names(RARE)
    for topic_filter in ("plant/7/#", "plant/+/line/7"):
        wanted = dictionary.hashes_matching(topic_filter)
        yield f"{topic_filter} ({len(wanted):,} names)", wanted


def best(act: Callable[[], Answer]) -> tuple[float, Answer]:
    durations = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        answer = act()
        durations.append(time.perf_counter() - start)
    return min(durations), answer


if __name__ == "__main__":
    main()
