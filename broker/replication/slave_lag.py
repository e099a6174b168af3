"""Lag of slaves, reported by their master: in bytes of its log, and as the age of the first record missing.

Records carry the time of their append, so the age is exact, also for a master that has just begun. Those of an earlier
master have the time of its machine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from entrepot.broker.replication.slave_progress import SlaveProgress
from entrepot.broker.store.commit_log import CommitLog
from entrepot.broker.store.record import HEADER_SIZE, peek_length
from entrepot.domain.errors import CorruptedError
from entrepot.domain.replication.mastership import Member
from entrepot.protocols.wire.operations import SlaveStatus


def slave_statuses(
    slaves: Mapping[int, SlaveProgress], members: Collection[Member], log: CommitLog, now_ms: int
) -> dict[int, SlaveStatus]:
    """Return all slaves that a master has heard of, by replica id. `members`: of the set of replicas in sync."""
    return {
        replica: SlaveStatus(
            slave.acknowledged,
            slave.stream >= 0,
            slave.member in members,
            behind_seconds(log, slave.acknowledged, now_ms),
        )
        for replica, slave in slaves.items()
    }


def behind_seconds(log: CommitLog, end: int, now_ms: int) -> float | None:
    """Return the age of the oldest record missing from a log that ends at an offset; 0.0 without one. None: the record
    cannot be read. Where retention has removed it, the first one left counts."""
    offset, size = max(end, log.min_offset), log.layout.segment_size_bytes
    rest = size - offset % size
    if rest < HEADER_SIZE:  # no record fits there
        offset += rest
    if offset >= log.written_offset:
        return 0.0
    length = peek_length(log.read_span(offset, offset + HEADER_SIZE), 0)
    try:
        written_at = log.read_header(offset, length).store_time_ms
    except CorruptedError:
        return None
    return max(now_ms - written_at, 0) / 1000
