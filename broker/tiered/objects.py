"""ObjectStore: the tier's view of an object store. Its calls block: they belong in a process or thread of their own.

Paths are relative to the store's URL, with "/" between their parts, and never begin with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from entrepot.domain.errors import Code, EntrepotError


class TierError(EntrepotError):
    """A failed request to the object store, which may be repeated. Hot messages are not concerned."""

    def __init__(self, message: str, code: Code = Code.UNAVAILABLE) -> None:
        super().__init__(code, message)


class MissingObjectError(TierError):
    """The object does not exist."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is not in the object store", Code.COLD_CORRUPTED)
        self.path = path


def problem_of(error: Exception) -> str:
    """Return an error as a problem for people; of one that nobody expected with its kind."""
    return error.message if isinstance(error, EntrepotError) else f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as in a list; `modified_ms` by the store's own clock, in epoch milliseconds."""

    path: str
    size: int
    modified_ms: int


class ObjectStore(Protocol):
    """An object store. Every call raises TierError where the store is away, refuses, or is too slow."""

    @property
    def url(self) -> str:
        """URL without credentials: for people, and for readers of the tables in it."""

    def put_new(self, path: str, data: bytes) -> bool:
        """Store an object, durable on return, unless its path is taken; False if it is. After a lost answer it may be
        False for one's own object: the caller may look at it."""

    def replace(self, path: str, data: bytes) -> None:
        """Store an object, durable on return, in the place of an earlier one: readers find the one or the other. Two
        writers at once are not told apart: it is for hints alone."""

    def get(self, path: str) -> bytes:
        """Return the whole object. Raises MissingObjectError."""

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return parts of an object, as (start, end), read together. Raises MissingObjectError, and TierError where the
        object ends before one of them."""

    def size(self, path: str) -> int:
        """Return the bytes of an object. Raises MissingObjectError."""

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects whose path begins with a prefix, in the order of their paths."""

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; a missing one is not an error."""


def put_or_find(objects: ObjectStore, path: str, data: bytes) -> bytes | None:
    """Store an object that must be new. Return None, or what is there already: another's, or one's own after a lost
    answer. Raises TierError where the outcome is unknown."""
    lost: TierError | None = None
    try:
        if objects.put_new(path, data):
            return None
    except TierError as error:
        lost = error
    try:
        return objects.get(path)
    except MissingObjectError as error:
        raise (lost or error) from error
