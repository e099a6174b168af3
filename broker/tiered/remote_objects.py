"""ObstoreStore: S3, GCS, Azure and memory as object stores, through obstore."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from entrepot.broker.tiered.object_paths import (
    checked_path,
    checked_prefix,
    checked_ranges,
    checked_size,
    ends_before,
    spans_of,
)
from entrepot.broker.tiered.objects import MissingObjectError, StoredObject, TierError
from entrepot.broker.tiered.store_faults import Fault, fault_of, sentence
from entrepot.broker.tiered.store_options import StoreOptions

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

CONFLICT_TRIES: Final = 4
"""Tries to put an object that a store reports as existing, and does not show."""
NEAR_BYTES: Final = 256 << 10
"""Distance in bytes below which parts of an object are read with one request."""
LIST_PAGE: Final = 1000
"""Objects of a list held at once: as many as stores return in one answer."""

_ERRORS: Final = (BaseError, OSError, ValueError, NotImplementedError, RuntimeError)


class ObstoreStore:
    """A client of obstore; `pause` waits for seconds."""

    def __init__(
        self, client: Client, url: str, options: StoreOptions, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._client = client
        self._url = url
        self._options = options
        self._pause = pause

    @property
    def url(self) -> str:
        return self._url

    def __repr__(self) -> str:
        return f"ObstoreStore({self._url!r})"

    def put_new(self, path: str, data: bytes) -> bool:
        """Put an object as in ObjectStore, with one request whatever its size: only that is refused where there is an
        object.

        A store that answers "conflict" reports two writers at once, one of which may have failed. It is believed where
        it shows the object.
        """
        checked_path(path)
        checked_size(path, len(data))
        wait = self._options.first_pause_seconds
        for _ in range(CONFLICT_TRIES):
            with self._asking(None):
                try:
                    obstore.put(self._client, path, data, mode="create", use_multipart=False)
                    return True
                except AlreadyExistsError:
                    pass
            with suppress(MissingObjectError):
                self.size(path)
                return False
            self._pause(wait)
            wait = min(2 * wait, self._options.longest_pause_seconds)
        raise TierError(f"{self._url}: the store says that {path} is there, and does not have it")

    def replace(self, path: str, data: bytes) -> None:
        checked_path(path)
        checked_size(path, len(data))
        with self._asking(None):
            obstore.put(self._client, path, data, mode="overwrite", use_multipart=False)

    def get(self, path: str) -> bytes:
        checked_path(path)
        with self._asking(path):
            answer = obstore.get(self._client, path)
            size = answer.meta["size"]
            checked_size(path, size)
            data = answer.bytes().to_bytes()
        if len(data) != size:
            raise ends_before(path, 0, size)
        return data

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return parts as in ObjectStore; parts near each other are read as one. obstore joins them, too, but panics
        where the object ends between two of them: so it is only given distant ones."""
        checked_path(path)
        checked_ranges(path, ranges)
        spans = list(spans_of(ranges, NEAR_BYTES))
        if not spans:
            self.size(path)
            return [b""] * len(ranges)
        with self._asking(path, spans[-1]):
            answers = obstore.get_ranges(
                self._client, path, starts=[each[0] for each in spans], ends=[each[1] for each in spans], coalesce=0
            )
            read = [memoryview(each) for each in answers]
        for (start, end), data in zip(spans, read, strict=True):
            if len(data) != end - start:
                raise ends_before(path, start, end)
        return [_part(spans, read, start, end) for start, end in ranges]

    def size(self, path: str) -> int:
        checked_path(path)
        with self._asking(path):
            return obstore.head(self._client, path)["size"]

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        return self._objects(checked_prefix(prefix))

    def _objects(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects of a prefix. obstore lists directories: for part of a name, the list starts before it and
        ends after it."""
        directory, _, rest = prefix.rpartition("/")
        before = prefix[:-1] if rest[:-1] not in ("", ".", "..") else None
        with self._asking(None):
            pages = obstore.list(self._client, directory or None, offset=before, chunk_size=LIST_PAGE)
        last = ""
        while True:
            with self._asking(None):
                page = next(pages, ())
            if not page:
                return
            for each in page:
                path = each["path"]
                if path <= last:
                    if not each["size"]:  # "a/", by which consoles show a directory, and obstore shows it as "a"
                        continue
                    raise TierError(f"{self._url}: the store does not list in the order of paths: {last}, then {path}")
                last = path
                if path.startswith(prefix):
                    yield StoredObject(path, each["size"], int(each["last_modified"].timestamp() * 1000))
                elif path > prefix:
                    return

    def delete(self, paths: Sequence[str]) -> None:
        wanted = [checked_path(path) for path in paths]
        if not wanted:
            return
        with self._asking(None):
            try:
                obstore.delete(self._client, wanted)
                return
            except FileNotFoundError as error:
                if fault_of(error).has_no_bucket:
                    raise
        for path in wanted:  # GCS and Azure stop at a missing one
            with suppress(MissingObjectError), self._asking(path):
                obstore.delete(self._client, path)

    @contextmanager
    def _asking(self, path: str | None, span: tuple[int, int] = (0, 0)) -> Iterator[None]:
        """Turn errors of a request into TierError, without their text; only this path's object counts as missing."""
        try:
            yield
        except FileNotFoundError as error:
            fault = fault_of(error)
            if path is None:  # a write or list misses nothing but its bucket
                raise self._failed(Fault(404, "NoSuchBucket")) from None
            if not fault.has_no_bucket and (fault.code or self._has_bucket()):
                raise MissingObjectError(path) from None
            raise self._failed(fault) from None
        except _ERRORS as error:
            fault = fault_of(error)
            if fault.status == 416 or "Invalid range" in str(error):
                raise ends_before(path or "", *span) from None
            raise self._failed(fault) from None

    def _has_bucket(self) -> bool:
        """True if the bucket exists, which the answer to a HEAD, without a body, does not tell."""
        with self._asking(None):
            next(obstore.list(self._client, "_bucket", chunk_size=1), None)
        return True

    def _failed(self, fault: Fault) -> TierError:
        return TierError(sentence(fault, self._url, self._options))


def _part(spans: Sequence[tuple[int, int]], read: Sequence[memoryview], start: int, end: int) -> bytes:
    """Return a part of the bytes read; one without bytes may lie outside of them."""
    for (first, last), data in zip(spans, read, strict=True):
        if first <= start and end <= last:
            return bytes(data[start - first : end - first])
    return b""
