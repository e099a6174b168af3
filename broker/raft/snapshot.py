"""Snapshots: the state of all commands up to an index, and its transfer in chunks (dissertation, chapter 5)."""

from __future__ import annotations

from typing import Final

from google_crc32c import value as crc32c
from msgspec import Struct

from entrepot.broker.raft.membership import Configuration
from entrepot.broker.raft.messages import SnapshotChunk


class Snapshot(Struct, frozen=True):
    """A snapshot. `index`, `term`, `configuration`: as of the last entry in it. `data`: of the state machine."""

    index: int
    term: int
    configuration: Configuration
    data: bytes = b""


NO_SNAPSHOT: Final = Snapshot(0, 0, Configuration())
"""Snapshot of a new member: it knows no member, and waits for a leader."""


class OutgoingSnapshot:
    """A snapshot on its way to one follower. `offset`: bytes that the follower has."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot, self.offset = snapshot, 0
        self._crc = crc32c(snapshot.data)

    def chunk(self, term: int, read_round: int, most: int) -> SnapshotChunk:
        """Return the next chunk of at most so many bytes."""
        of, data = self.snapshot, self.snapshot.data
        part = data[self.offset : self.offset + most]
        return SnapshotChunk(
            term, of.index, of.term, of.configuration, len(data), self._crc, self.offset, part, read_round
        )


class IncomingSnapshot:
    """The chunks received so far. A chunk counts at its offset alone: doubled and late ones change nothing."""

    def __init__(self) -> None:
        self._of: tuple[int, int, int, int] | None = None
        self._data = bytearray()

    def add(self, chunk: SnapshotChunk) -> Snapshot | None:
        """Return the whole snapshot, once its last chunk is there and the checksum holds."""
        of = (chunk.index, chunk.last_term, chunk.size, chunk.crc)
        if self._of != of:
            self._of = of
            self._data.clear()
        if chunk.offset == len(self._data):
            self._data += chunk.data
        if len(self._data) < chunk.size:
            return None
        data = bytes(self._data)
        self.forget()
        if len(data) > chunk.size or crc32c(data) != chunk.crc:
            return None
        return Snapshot(chunk.index, chunk.last_term, chunk.configuration, data)

    @property
    def received(self) -> int:
        """Number of bytes received."""
        return len(self._data)

    def forget(self) -> None:
        """Begin anew with the next chunk."""
        self._of = None
        self._data.clear()
