"""CountedObjects: an object store with a count of its failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from entrepot.broker.tiered.objects import MissingObjectError, ObjectStore, StoredObject, TierError


class CountedObjects:
    """An `ObjectStore` over another one. `failed`: calls refused or not answered; a missing object is an answer."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self.failed = 0

    @property
    def url(self) -> str:
        return self._objects.url

    @contextmanager
    def _counting(self) -> Iterator[None]:
        try:
            yield
        except MissingObjectError:
            raise
        except TierError:
            self.failed += 1
            raise

    def put_new(self, path: str, data: bytes) -> bool:
        with self._counting():
            return self._objects.put_new(path, data)

    def replace(self, path: str, data: bytes) -> None:
        with self._counting():
            self._objects.replace(path, data)

    def get(self, path: str) -> bytes:
        with self._counting():
            return self._objects.get(path)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        with self._counting():
            return self._objects.get_ranges(path, ranges)

    def size(self, path: str) -> int:
        with self._counting():
            return self._objects.size(path)

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        with self._counting():
            yield from self._objects.objects(prefix)

    def delete(self, paths: Sequence[str]) -> None:
        with self._counting():
            self._objects.delete(paths)
