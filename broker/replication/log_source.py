"""LogSource: the confirmed log of a replica, master or slave, for others to copy, heal and compare."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Collection, Iterator
from typing import Final

from google_crc32c import value as crc32c

from entrepot.broker.replication.files.runs import MAX_RECORD_BYTES, checked, encode_run, read_run
from entrepot.broker.replication.replica import Replica
from entrepot.broker.store.commit_log import CommitLog
from entrepot.broker.store.record import HEADER_SIZE, peek_length
from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.replication.epochs import start_before

BLOCK_BYTES: Final = 1 << 20
"""Bytes of a checksum's block: blocks of a segment begin at multiples of it."""


def checksums(path: str, begin: int, start: int, end: int) -> list[int]:
    """Return the CRC-32C of each block in a range of a segment file that begins at `begin`. Raises OSError."""
    found = []
    with open(path, "rb", buffering=0) as file:
        for at, last in blocks(start, end):
            file.seek(at - begin)
            found.append(crc32c(file.read(last - at)))
    return found


def blocks(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield parts of [start, end), cut at multiples of `BLOCK_BYTES`."""
    while start < end:
        last = min(start - start % BLOCK_BYTES + BLOCK_BYTES, end)
        yield start, last
        start = last


def first_corrupted(path: str, begin: int, until: int, passed: Collection[int] = ()) -> int | None:
    """Return the offset of the first corrupted record before `until` in a segment file that begins at `begin`; `passed`
    ones are skipped. None if all are whole. Raises OSError."""
    with open(path, "rb") as file:
        at = begin
        while at + HEADER_SIZE <= until:
            data = b""
            try:
                file.seek(at - begin)
                data = file.read(HEADER_SIZE)
                data += file.read(max(min(peek_length(data, 0), MAX_RECORD_BYTES) - HEADER_SIZE, 0))
                _, length, _ = checked(data, 0, at)
            except CorruptedError:
                if at not in passed or not (length := peek_length(data, 0)):
                    return None if at in passed else at
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return None if at in passed else at
            at += length
    return None


class LogSource:
    """The source. `commit_log`: of the open store, if any."""

    def __init__(self, machine: Callable[[], Replica], commit_log: Callable[[], CommitLog | None]) -> None:
        self._machine, self._commit_log = machine, commit_log

    def _opened(self) -> CommitLog:
        found = self._commit_log()
        if found is None:
            raise EntrepotError(Code.UNAVAILABLE, "the replica has no open store")
        return found

    async def fetch(self, group: str, before: tuple[int, int], offset: int) -> bytes:
        """Return a run of confirmed records from an offset on, empty where there is none yet.

        Raises PRECONDITION_FAILED for another group, or where the log before it is not that of `before`;
        OFFSET_NOT_FOUND where retention has removed it; MESSAGE_CORRUPTED.
        """
        log, machine = self._opened(), self._machine()
        confirmed = min(machine.confirmed, machine.synced)
        if group != machine.state.group:
            raise EntrepotError(Code.PRECONDITION_FAILED, f"this is of group {machine.state.group}, not {group}")
        if offset < log.min_offset:
            raise EntrepotError(Code.OFFSET_NOT_FOUND, f"the log begins at {log.min_offset}")
        if offset > confirmed or (offset and start_before(machine.starts, offset) != before):
            text = f"the log here is another one before {offset}, or is not confirmed so far"
            raise EntrepotError(Code.PRECONDITION_FAILED, text)
        return encode_run(offset, confirmed, read_run(log, offset, confirmed) if offset < confirmed else b"")

    async def checksums(self, start: int, end: int) -> list[int]:
        """Return the checksums of the blocks in a range of one segment, as far as they are confirmed."""
        log, machine = self._opened(), self._machine()
        end = min(end, machine.confirmed)
        if start >= end:
            return []
        begin = start - start % log.layout.segment_size_bytes
        path = log.path_of(start)
        if path is None or end > begin + log.layout.segment_size_bytes:
            raise EntrepotError(Code.OFFSET_NOT_FOUND, f"there is no segment from {start} to {end}")
        return await asyncio.to_thread(checksums, path, begin, start, end)
