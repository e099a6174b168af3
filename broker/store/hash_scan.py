"""HashSet and `scan`: find the consume-queue entries that carry one of a set of sub-topic hashes, as vectors.

A sub-topic hash here is the 48-bit number `filter_hash >> TAG_BITS`; 0 stands for "no sub-topic". Entries are read in
place through strided views: copying the columns out first would take as long as the search.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from entrepot.broker.store.carried_entries import ENTRY_SIZE
from entrepot.domain.filter_hash import TAG_BITS, sub_topic_hash

Hashes: TypeAlias = NDArray[np.uint64]
Positions: TypeAlias = NDArray[np.int64]

HASH_LIMIT: Final = 1 << 48
FEW_HASHES: Final = 2
"""Most hashes compared one by one: beyond, the table is quicker (measured: 1,200, 800, 600 M entries/s; table 720)."""
MANY_HASHES: Final = 32_768
"""Hashes from which the exact test of everything is quicker, as so much of the table is set (100 M entries/s)."""
RECENT_SHARE: Final = 16
"""Part of a set above which additions make it be built anew (if also above `RECENT_MINIMUM`)."""
RECENT_MINIMUM: Final = 1_024

_HASH_PLACE: Final = 12  # in an entry's filter hash: 4 high bytes, 2 low bytes, then the tag's 2
_LOW_PLACE: Final = 16
_TABLE_SIZE: Final = 1 << 16
_EMPTY: Final = np.uint64(2**64 - 1)  # no 48-bit hash is this
_ODD: Final = 0x9E3779B97F4A7C15
_TAG_SHIFT: Final = np.uint64(TAG_BITS)


class _ExactTable:
    """Membership without a sort: levels of slots, each with the hashes that found their slot taken on the level before.

    At most half the slots are used, so a fifth of the hashes goes on to the next level. An empty slot proves that a
    hash is absent, so few questions reach the second level.
    """

    def __init__(self, hashes: Hashes) -> None:
        self._levels: list[tuple[np.uint64, np.uint64, Hashes]] = []
        rest = hashes
        while rest.size:
            bits = max(4, int(2 * rest.size - 1).bit_length())
            factor = np.uint64(_ODD * (2 * len(self._levels) + 1) % 2**64)  # another order on each level
            shift = np.uint64(64 - bits)
            slots = np.full(1 << bits, _EMPTY)
            places = (rest * factor) >> shift
            slots[places] = rest
            self._levels.append((factor, shift, slots))
            rest = rest[slots[places] != rest]

    def contains(self, hashes: Hashes) -> NDArray[np.bool_]:
        found = np.zeros(hashes.size, np.bool_)
        undecided: NDArray[np.intp] | None = None
        for factor, shift, slots in self._levels:
            held = slots[(hashes * factor) >> shift]
            hit = held == hashes
            if undecided is None:
                found = hit
                undecided = np.flatnonzero((held != _EMPTY) & ~hit)
                hashes = hashes[undecided]
            else:
                found[undecided[hit]] = True
                more = (held != _EMPTY) & ~hit
                undecided, hashes = undecided[more], hashes[more]
            if not undecided.size:
                break
        return found


class HashSet:
    """An immutable set of 48-bit sub-topic hashes, made ready for scanning on its first scan.

    `HashSet(hashes)` raises ValueError if one does not fit 48 bits (a hash still above its tag's bits, for example).
    The hash 0 may be a member: it matches the entries of records without a sub-topic.
    """

    __slots__ = ("_exact", "_recent", "_recent_exact", "_settled", "_table")

    def __init__(self, hashes: Iterable[int] | Hashes = ()) -> None:
        self._settled = _distinct(hashes)
        self._recent: Hashes = self._settled[:0]
        self._table: NDArray[np.bool_] | None = None
        self._exact: _ExactTable | None = None
        self._recent_exact: _ExactTable | None = None

    @classmethod
    def of_names(cls, *names: str) -> HashSet:
        """Return the hashes of full sub-topic names; the empty name gives 0."""
        return cls([sub_topic_hash(name) >> TAG_BITS for name in names])

    def __len__(self) -> int:
        return int(self._settled.size + self._recent.size)

    @property
    def hashes(self) -> Hashes:
        """The members, in no particular order."""
        return np.concatenate((self._settled, self._recent)) if self._recent.size else self._settled

    def extended(self, hashes: Iterable[int] | Hashes) -> HashSet:
        """Return this set with more members. Parts ready for scanning stay ready: only the new members cost time."""
        more = _distinct(hashes)
        more = more[~self.contains(more)]
        if not more.size:
            return self
        recent = np.concatenate((self._recent, more))
        if recent.size > max(RECENT_MINIMUM, self._settled.size // RECENT_SHARE) or len(self) <= FEW_HASHES:
            return HashSet(np.concatenate((self._settled, recent)))
        found = HashSet()
        found._settled, found._recent, found._exact = self._settled, recent, self._exact
        if self._table is not None:
            found._table = self._table.copy()
            found._table[_low_bits(more)] = True
        return found

    def contains(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return flags: True for each hash of an array that is a member, exactly."""
        if len(self) <= FEW_HASHES:
            found = np.zeros(hashes.size, np.bool_)
            for member in self.hashes:
                found |= hashes == member
            return found
        if self._exact is None:
            self._exact = _ExactTable(self._settled)
        found = self._exact.contains(hashes)
        if self._recent.size:
            if self._recent_exact is None:
                self._recent_exact = _ExactTable(self._recent)
            found |= self._recent_exact.contains(hashes)
        return found

    def table(self) -> NDArray[np.bool_]:
        """Flags by the low 16 bits of a hash (as in an entry, read little-endian): True if a member has them."""
        if self._table is None:
            self._table = np.zeros(_TABLE_SIZE, np.bool_)
            self._table[_low_bits(self.hashes)] = True
        return self._table


def hashes_of(entries: bytes | bytearray | memoryview) -> Hashes:
    """Return the sub-topic hash of every entry. Raises ValueError if the bytes are not whole entries."""
    count = _count(entries)
    return _column(entries, count).astype(np.uint64) >> _TAG_SHIFT if count else np.empty(0, np.uint64)


def scan(entries: bytes | bytearray | memoryview, wanted: HashSet, known: HashSet | None = None) -> Positions:
    """Return the ascending positions of the entries with a wanted sub-topic hash.

    With `known` given, hashes that are neither known nor 0 are candidates too: their names are not remembered, so they
    may match. Raises ValueError if the bytes are not whole entries.
    """
    count = _count(entries)
    if known is not None or len(wanted) >= MANY_HASHES:
        hashes = hashes_of(entries)
        found = wanted.contains(hashes)
        if known is not None:
            found |= ~(known.contains(hashes) | (hashes == 0))
        return np.flatnonzero(found)
    if not len(wanted) or not count:
        return np.empty(0, np.int64)
    candidates = _candidates(entries, count, wanted)
    if not candidates.size:
        return candidates
    return candidates[wanted.contains(_column(entries, count)[candidates].astype(np.uint64) >> _TAG_SHIFT)]


def _column(entries: bytes | bytearray | memoryview, count: int) -> Hashes:
    """Return a view of the filter hashes: big-endian, with their tags. There must be at least one entry."""
    return np.ndarray((count,), ">u8", entries, _HASH_PLACE, (ENTRY_SIZE,))


def _candidates(entries: bytes | bytearray | memoryview, count: int, wanted: HashSet) -> Positions:
    """Return a superset of the answer from part of each hash: views of fewer, aligned bytes are quicker to walk."""
    if len(wanted) <= FEW_HASHES:
        high: NDArray[np.uint32] = np.ndarray((count,), "<u4", entries, _HASH_PLACE, (ENTRY_SIZE,))
        first, *others = (wanted.hashes >> np.uint64(16)).astype(">u4").view("<u4")
        found = high == first
        for other in others:
            found |= high == other
        return np.flatnonzero(found)
    low: NDArray[np.uint16] = np.ndarray((count,), "<u2", entries, _LOW_PLACE, (ENTRY_SIZE,))
    return np.flatnonzero(wanted.table().take(low))


def _count(entries: bytes | bytearray | memoryview) -> int:
    count, rest = divmod(memoryview(entries).nbytes, ENTRY_SIZE)
    if rest:
        raise ValueError(f"{rest} bytes more than {count} whole entries")
    return count


def _low_bits(hashes: Hashes) -> NDArray[np.uint16]:
    return (hashes & np.uint64(_TABLE_SIZE - 1)).astype(">u2").view("<u2")


def _distinct(hashes: Iterable[int] | Hashes) -> Hashes:
    given = hashes if isinstance(hashes, np.ndarray) else np.array(list(hashes), np.uint64)
    found = np.sort(given)  # np.unique hashes since numpy 2.3, which takes ten times as long
    found = found[np.append(True, found[1:] != found[:-1])] if found.size else found
    if found.size and found[-1] >= HASH_LIMIT:
        raise ValueError(f"{found[-1]:#x} is not a 48-bit hash")
    return found
