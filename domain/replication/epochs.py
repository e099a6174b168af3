"""Epochs: the masterships that wrote the parts of the log.

Every start of a master appends an EPOCH record before anything else: a new mastership, or the same one in a new run of
its process.  So bytes that a crash took from a master, and a slave kept, are never taken for new ones.

Payload of an EPOCH record (big-endian):

    offset  size
    0       8     epoch: number of the mastership
    8       8     run: number of the start of the master's data directory
    16      4     recovery epoch: receipt handles of an earlier one are void
    20      2     replica id of the master
    22      1     flags: bit 0 unclean (confirmed bytes may be missing before this record)
    23      16    incarnation of the master's data directory
    39      16    lineage: begins anew where a group was promoted by force
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

UNCLEAN: Final = 1
MAX_EPOCHS: Final = 4096
"""Most starts that are remembered.  A replica behind the first of them copies the log anew."""
_RECORD = struct.Struct(">QQIHB16s16s")
_START = struct.Struct(">QQQIHB16s16s")


class EpochStart(NamedTuple):
    """One start of a master, as its EPOCH record in the log says."""

    epoch: int
    run: int
    start: int
    recovery_epoch: int = 0
    replica: int = 0
    is_unclean: bool = False
    incarnation: bytes = bytes(16)
    lineage: bytes = bytes(16)

    @property
    def name(self) -> tuple[int, int]:
        """The start's unique name in its group: (epoch, run)."""
        return self.epoch, self.run

    def payload(self) -> bytes:
        """Return the payload of its EPOCH record."""
        flags = UNCLEAN if self.is_unclean else 0
        return _RECORD.pack(
            self.epoch, self.run, self.recovery_epoch, self.replica, flags, self.incarnation, self.lineage
        )


BEGINNING: Final = EpochStart(0, 0, 0)
"""The epoch of everything that was in the log before its store had replicas."""


def read_epoch(payload: bytes, commit_log_offset: int) -> EpochStart:
    """Return the start of an EPOCH record at an offset of the log."""
    epoch, run, recovery_epoch, replica, flags, incarnation, lineage = _RECORD.unpack(payload)
    is_unclean = bool(flags & UNCLEAN)
    return EpochStart(epoch, run, commit_log_offset, recovery_epoch, replica, is_unclean, incarnation, lineage)


def encode_starts(starts: Sequence[EpochStart]) -> bytes:
    """Return starts encoded for the state file and the wire."""
    return b"".join(
        _START.pack(s.epoch, s.run, s.start, s.recovery_epoch, s.replica, int(s.is_unclean), s.incarnation, s.lineage)
        for s in starts
    )


def decode_starts(data: bytes) -> list[EpochStart]:
    """Reverse `encode_starts`."""
    return [
        EpochStart(epoch, run, start, recovery_epoch, replica, bool(flags & UNCLEAN), incarnation, lineage)
        for epoch, run, start, recovery_epoch, replica, flags, incarnation, lineage in _START.iter_unpack(data)
    ]


def start_before(starts: Sequence[EpochStart], offset: int) -> tuple[int, int]:
    """Return epoch and run of the start whose bytes end at an offset: replicas that agree on it share the log before
    it."""
    found = starts[0].name
    for start in starts:
        if start.start >= offset:
            break
        found = start.name
    return found


class ForkedError(Exception):
    """Two logs place the beginning of one mastership differently: they have no common history."""


def common_end(mine: Sequence[EpochStart], my_end: int, theirs: Sequence[EpochStart], their_end: int) -> int | None:
    """Return the commit-log offset up to which two logs are equal; None if they share no known start.  Both lists
    ascend by place.  Forgotten starts count as unknown, never as equal.  Raises ForkedError."""
    ends_of_mine, ends_of_theirs = _ends(mine, my_end), _ends(theirs, their_end)
    shared = ends_of_mine.keys() & ends_of_theirs.keys()
    for name in shared:
        if ends_of_mine[name][0] != ends_of_theirs[name][0]:
            raise ForkedError(f"epoch {name[0]}, run {name[1]} begins at two places of the log")
    if not shared:
        return None
    last = max(shared)
    return min(ends_of_mine[last][1], ends_of_theirs[last][1])


def _ends(starts: Sequence[EpochStart], end: int) -> dict[tuple[int, int], tuple[int, int]]:
    """Return beginning and end in the log of each start, by name."""
    ends = [start.start for start in starts[1:]] + [end]
    return {start.name: (start.start, last) for start, last in zip(starts, ends, strict=True)}
