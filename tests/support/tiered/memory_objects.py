"""MemoryObjects: an object store of this process, with a clock that tests set."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

from entrepot.broker.tiered.object_paths import checked_path, checked_prefix, checked_ranges, checked_size, ends_before
from entrepot.broker.tiered.objects import MissingObjectError, StoredObject
from entrepot.domain.clock import Clock


class MemoryObjects:
    """As strict as the stores of the product: the contract suite has it among them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[str, tuple[bytes, int]] = {}

    @property
    def url(self) -> str:
        return "memory://"

    def put_new(self, path: str, data: bytes) -> bool:
        checked_path(path)
        checked_size(path, len(data))
        with self._lock:
            return self._found.setdefault(path, entry := (bytes(data), self._clock.now_ms())) is entry

    def replace(self, path: str, data: bytes) -> None:
        checked_size(path, len(data))
        with self._lock:
            self._found[checked_path(path)] = bytes(data), self._clock.now_ms()

    def get(self, path: str) -> bytes:
        with self._lock:
            if (found := self._found.get(checked_path(path))) is None:
                raise MissingObjectError(path)
        return found[0]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return ranges_of(path, self.get(path), ranges)

    def size(self, path: str) -> int:
        return len(self.get(path))

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        checked_prefix(prefix)
        with self._lock:
            return iter(stored_in(self._found, prefix))

    def delete(self, paths: Sequence[str]) -> None:
        for path in [checked_path(each) for each in paths]:
            with self._lock:
                self._found.pop(path, None)


def ranges_of(path: str, data: bytes, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    """Parts of an object.  Raises as a store does where it ends before one of them."""
    checked_ranges(path, ranges)
    for start, end in ranges:
        if start < end and end > len(data):
            raise ends_before(path, start, end)
    return [data[start:end] for start, end in ranges]


def stored_in(found: Mapping[str, tuple[bytes, int]], prefix: str) -> list[StoredObject]:
    """A list of what is there, in order."""
    return [StoredObject(path, len(data), at) for path, (data, at) in sorted(found.items()) if path.startswith(prefix)]
