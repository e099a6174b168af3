"""PackedFiles: the files of a table at one version, in little memory.

A table of years has hundreds of thousands, each with its statistics and runs as text: some kilobytes as objects. Here
a file is its size and time, and the rest compressed; it becomes an `AddFile` again when somebody asks for it. Versions
share what they have in common.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from entrepot.broker.tiered.delta_actions import AddFile
from entrepot.broker.tiered.layered import Layered

_HEAD: Final = struct.Struct("<QQ")
_MOST: Final = (1 << 64) - 1
_KNOWN: Final = (
    b'{"nullCount": {"odd_born_ms": 0, "json_entrepot.runsentrepot.holesentrepot.clustered'
    b'"minValues": {"queue_id": 0, "queue_offset": 0, "store_time": "2026-01-01T00:00:00.000Z", "born_time": '
    b'"2026-01-01T00:00:00.000Z", "message_id": "0000000000000000", "sub_topic": "", "tag": "", "log_offset": 0}, '
    b'"maxValues": {"queue_id": 0, "queue_offset": 0, "store_time": "2026-01-01T00:00:00.000Z", "born_time": '
    b'{"numRecords": 16384, "nullCount": {"queue_id": 0, "queue_offset": 0, "store_time": 0, "born_time": 0, '
    b'"message_id": 0, "sub_topic": 0, "tag": 0, "log_offset": 0}}[[0,0,0,0,[1790000000000,1790000000000],'
)
"""Texts that statistics and runs have in common."""


class Sized(NamedTuple):
    """A file by its path, bytes, and the time of its commit in epoch milliseconds."""

    path: str
    size: int
    modification_time: int


class _Rest(msgspec.Struct, frozen=True, array_like=True):
    data_change: bool
    stats: str | None
    tags: dict[str, str | None] | None
    partition_values: dict[str, str | None]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Rest).decode


def packed(file: AddFile) -> bytes:
    """Return a file, but for its path. It has no deletion vector: such tables are refused."""
    rest = _Rest(file.data_change, file.stats, file.tags, file.partition_values)
    squeezer = zlib.compressobj(level=1, zdict=_KNOWN)
    head = _HEAD.pack(*(min(max(number, 0), _MOST) for number in (file.size, file.modification_time)))
    return b"".join((head, squeezer.compress(_encode(rest)), squeezer.flush()))


def unpacked(path: str, data: bytes) -> AddFile:
    """Reverse `packed`."""
    size, modification_time = _HEAD.unpack_from(data)
    stretcher = zlib.decompressobj(zdict=_KNOWN)
    rest = _decode(stretcher.decompress(memoryview(data)[_HEAD.size :]))
    return AddFile(
        path,
        size,
        modification_time,
        rest.data_change,
        rest.stats,
        rest.tags,
        rest.partition_values,
    )


class PackedFiles(Mapping[str, AddFile]):
    """Files by path; immutable. `bytes`: of all of them in the object store."""

    __slots__ = ("_packed", "bytes")

    def __init__(self, files: Layered[bytes], total: int) -> None:
        self._packed = files
        self.bytes = total

    @staticmethod
    def of(files: Mapping[str, bytes | None]) -> PackedFiles:
        """Return some files, as `packed` has them; None: gone."""
        found = {path: data for path, data in files.items() if data is not None}
        return PackedFiles(Layered(found), sum(_HEAD.unpack_from(data)[0] for data in found.values()))

    def changed(self, changes: Mapping[str, bytes | None]) -> PackedFiles:
        """Return others with these changes; None removes."""
        total = self.bytes
        for path, data in changes.items():
            total += 0 if data is None else _HEAD.unpack_from(data)[0]
            total -= self.size(path) if path in self._packed else 0
        return PackedFiles(self._packed.changed(changes), total)

    def differences(self, before: PackedFiles) -> tuple[set[str], set[str]]:
        """Return the paths that are new since an earlier version, and those that are gone."""
        return self._packed.differences(before._packed)

    def size(self, path: str) -> int:
        """Return the bytes of a file. Raises KeyError."""
        size: int = _HEAD.unpack_from(self._packed[path])[0]
        return size

    def sizes(self) -> Iterator[Sized]:
        """Yield all files, without what is compressed."""
        return (Sized(path, *_HEAD.unpack_from(self._packed[path])) for path in self._packed)

    def __getitem__(self, path: str) -> AddFile:
        return unpacked(path, self._packed[path])

    def __contains__(self, path: object) -> bool:
        return path in self._packed

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)
