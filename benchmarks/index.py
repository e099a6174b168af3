"""The message index by itself: `python -m benchmarks.index [entries]`.

Nanoseconds to note and to write a key, and milliseconds to find one with 100 matches among ten million entries.
"""

from __future__ import annotations

import sys
import tempfile
import time
from typing import Final

from entrepot.broker.store.disk import OsDisk
from entrepot.broker.store.message_index import FLUSH_ENTRIES, MessageIndex
from entrepot.broker.store.open_files import OpenFiles

ENTRIES: Final = 10_000_000
MATCHES: Final = 100
RECORD_SIZE: Final = 300
START_MS: Final = 1_775_410_260_123
SOUGHT: Final = b"sought"


def main() -> None:
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else ENTRIES
    with tempfile.TemporaryDirectory() as root:
        files = OpenFiles(OsDisk(), root)
        index = MessageIndex(files)
        put_ns, write_ns, longest_ns = _fill(index, entries)
        _print("put", put_ns / entries, "ns")
        _print("write, an entry", write_ns / entries, "ns")
        _print(f"longest pause of writing {FLUSH_ENTRIES:,} entries", longest_ns / 1e6, "ms")
        _print(f"find {MATCHES} of {entries:,}", _find_ms(index), "ms")
        rows = index.rows()
        index = MessageIndex(files)
        begin = time.perf_counter_ns()
        index.restore(rows)
        assert index.is_intact()
        _print("restore", (time.perf_counter_ns() - begin) / 1e6, "ms")
        _print("first find, which checks sealed files", _find_ms(index, rounds=1), "ms")
        _print("find after that", _find_ms(index), "ms")
        files.close()


def _fill(index: MessageIndex, entries: int) -> tuple[int, int, int]:
    put_ns = write_ns = longest_ns = offset = 0
    clock = time.perf_counter_ns
    for first in range(0, entries, FLUSH_ENTRIES):
        numbers = range(first, min(first + FLUSH_ENTRIES, entries))
        keys = [SOUGHT if n % (entries // MATCHES) == 0 else b"order-%012d" % n for n in numbers]
        put = index.put
        begin = clock()
        for number, key in zip(numbers, keys, strict=True):
            put(key, number * RECORD_SIZE, START_MS + number)
        put_ns += clock() - begin
        offset += len(keys) * RECORD_SIZE
        begin = clock()
        index.flush(offset)
        took = clock() - begin
        write_ns += took
        longest_ns = max(longest_ns, took)
    return put_ns, write_ns, longest_ns


def _find_ms(index: MessageIndex, rounds: int = 7) -> float:
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        found = list(index.find(SOUGHT))
        best = min(best, (time.perf_counter_ns() - begin) / 1e6)
        assert len(found) >= MATCHES
    return best


def _print(name: str, value: float, unit: str) -> None:
    sys.stdout.write(f"{name:44}{value:10.3f} {unit}\n")


if __name__ == "__main__":
    main()
