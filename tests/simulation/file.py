"""A file's bytes on a disk that can lose power: what is synced, and what may be there instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

T = TypeVar("T")

PAGE: Final = 4096


class Chance(Protocol):
    """What decides how a disk looks after a crash; the first of the choices is what was synced."""

    def choice(self, choices: Sequence[T], /) -> T: ...


class NothingMore(Chance):
    """Nothing survives that was not synced."""

    def choice(self, choices: Sequence[T], /) -> T:
        return choices[0]


class SimulatedFile:
    """Current bytes, synced bytes, and between them every version of each dirty page.  `page`: bytes that are written
    together or not at all."""

    def __init__(self, data: bytes | bytearray = b"", page: int = PAGE) -> None:
        self.page = page
        self.data = bytearray(data)
        self.synced = bytearray(data)
        self.versions: dict[int, list[bytes]] = {}
        self.sizes: list[int] = []

    def write(self, data: bytes | memoryview, offset: int) -> None:
        if offset + len(data) > len(self.data):
            self.resize(offset + len(data))
        self.data[offset : offset + len(data)] = data
        self._note(offset, offset + len(data))

    def resize(self, size: int) -> None:
        old = len(self.data)
        if size < old:
            del self.data[size:]
            self._note(size, old)
        else:
            self.data.extend(bytes(size - old))
        if size != old:
            self.sizes.append(size)

    def sync(self) -> None:
        size = len(self.data)
        del self.synced[size:]
        self.synced.extend(bytes(size - len(self.synced)))
        for number in self.versions:
            start = number * self.page
            self.synced[start : start + self.page] = self.data[start : start + self.page]
        self.versions.clear()
        self.sizes.clear()

    def after_crash(self, chance: Chance) -> SimulatedFile:
        size = chance.choice([len(self.synced), *self.sizes])
        data = bytearray(self.synced[:size].ljust(size, b"\0"))
        for number, versions in self.versions.items():
            start = number * self.page
            if start < size and (kept := chance.choice([None, *versions])) is not None:
                data[start : start + self.page] = kept[: size - start]
        return SimulatedFile(data, self.page)

    def _note(self, start: int, end: int) -> None:
        page = self.page
        for number in range(start // page, -(-end // page)):
            content = bytes(self.data[number * page : (number + 1) * page]).ljust(page, b"\0")
            self.versions.setdefault(number, []).append(content)
