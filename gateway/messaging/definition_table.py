"""DefinitionTable: definitions of one kind, kept as key-values under a prefix, as this gateway knows them.

Loaded once, then followed by watch.  What this gateway writes it knows when the write returns.  An older write never
takes the place of a newer one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

import structlog

from domain.errors import Code, EntrepotError
from domain.key_value import ABSENT, MAX_SCAN, KeyValueChange, KeyValueEvent, is_news, is_older
from domain.ports import KeyValues

MAX_REMEMBERED_DELETIONS: Final = 100_000
"""Versions of keys that are gone, kept against writes that are told of late."""
RETRY_SECONDS: Final = 0.2
_PASSING: Final = (Code.UNAVAILABLE, Code.REQUEST_TIMEOUT, Code.OUTCOME_UNKNOWN)

_T = TypeVar("_T")
OnChange = Callable[[str, _T | None, _T | None], None]
"""Told of a name with what it was before and what it is now."""

log = structlog.get_logger(__name__)


class DefinitionTable(Generic[_T]):
    """`decode` raises ValueError for what it cannot read: that is left out, and told to the log."""

    def __init__(
        self, store: KeyValues, prefix: str, encode: Callable[[_T], bytes], decode: Callable[[bytes], _T]
    ) -> None:
        self._store, self._prefix = store, prefix
        self._encode, self._decode = encode, decode
        self._values: dict[str, _T] = {}
        self._versions: dict[str, int] = {}
        self._gone: dict[str, int] = {}
        self._stop: Callable[[], None] | None = None
        self._seen = ABSENT
        self._news: asyncio.Event = asyncio.Event()
        self.on_change: list[OnChange[_T]] = []

    # -- what is known -------------------------------------------------------------------------------------------

    def get(self, name: str) -> _T | None:
        return self._values.get(name)

    def version(self, name: str) -> int:
        """That of what is known; `ABSENT` where it is not there."""
        return self._versions.get(name, ABSENT)

    def items(self) -> Iterator[tuple[str, _T]]:
        return iter(tuple(self._values.items()))

    def __len__(self) -> int:
        return len(self._values)

    # -- following -----------------------------------------------------------------------------------------------

    async def start(self, wait_seconds: float = 0) -> None:
        """Follow changes, and load what there is; where it is away, for so long.  A store that keeps no key-values has
        nothing."""
        loop = asyncio.get_running_loop()
        end = loop.time() + wait_seconds
        while True:
            try:
                if self._stop is None:
                    self._stop = self._store.watch(self._prefix, self._told)
                await self._load()
            except EntrepotError as error:
                if error.code is Code.UNSUPPORTED:
                    return
                if error.code not in _PASSING or loop.time() >= end:
                    raise
                await asyncio.sleep(RETRY_SECONDS)
                continue
            return

    def close(self) -> None:
        if self._stop is not None:
            self._stop()
            self._stop = None

    async def catch_up(self, version: int, patience_seconds: float = 1.0) -> None:
        """Return when a write that also changed this table is known here: what the watch is late with is asked for."""
        end = asyncio.get_running_loop().time() + patience_seconds
        while is_older(self._seen, version):
            self._news.clear()
            try:
                async with asyncio.timeout_at(end):
                    await self._news.wait()
            except TimeoutError:
                await self._load()
                return

    async def _load(self) -> None:
        after = ""
        while page := await self._store.scan(self._prefix, after=after, limit=MAX_SCAN):
            for kept in page:
                self._take(kept.key, kept.value, kept.version)
            if len(page) < MAX_SCAN:
                return
            after = page[-1].key

    def _told(self, events: Sequence[KeyValueEvent]) -> None:
        for event in events:
            self._take(event.key, event.value, event.version)

    def _take(self, key: str, value: bytes | None, version: int) -> None:
        name = key[len(self._prefix) :]
        if version != ABSENT and not is_older(version, self._seen):
            self._seen = version
            self._news.set()
        known = self._versions.get(name, self._gone.get(name, ABSENT))
        if not is_news(version, known):
            return
        before = self._values.pop(name, None)
        self._versions.pop(name, None)
        self._gone.pop(name, None)
        now: _T | None = None
        if value is None:
            while len(self._gone) >= MAX_REMEMBERED_DELETIONS:
                del self._gone[next(iter(self._gone))]
            self._gone[name] = version
        else:
            self._versions[name] = version
            try:
                now = self._values[name] = self._decode(value)
            except ValueError as error:
                log.error("a definition cannot be read", key=key, problem=str(error))
        for changed in self.on_change:
            changed(name, before, now)

    # -- writing -------------------------------------------------------------------------------------------------

    def change(self, name: str, value: _T | None, expected_version: int | None = None) -> KeyValueChange:
        """The change that makes a name say this (None: nothing any more)."""
        data = None if value is None else self._encode(value)
        return KeyValueChange(self._prefix + name, data, expected_version)

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        """Write changes of `change`, and perhaps others', as one; known here when this returns.

        Raises PRECONDITION_FAILED where somebody else was first.
        """
        version = await self._store.write(changes)
        self.note(changes, version)
        return version

    def note(self, changes: Sequence[KeyValueChange], version: int) -> None:
        """What was written with another table's changes."""
        for change in changes:
            if change.key.startswith(self._prefix):
                self._take(change.key, change.value, version)

    async def look(self, name: str) -> _T | None:
        """What the store says now.  That it is gone is told by the watch, with the version of that."""
        [found] = await self._store.get([self._prefix + name])
        if found is None:
            return None
        self._take(found.key, found.value, found.version)
        return self._values.get(name)
