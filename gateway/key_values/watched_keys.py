"""WatchedKeys: the key-values of a prefix, followed for a view of them at this gateway.

`take` gets the news, key by key: from the store's watch, from this gateway's own writes and questions, and from a full
look (at the start, and after each new beginning of the watch). Invariants: a written or asked key is known here on
return; an older state of a key never replaces a newer one; at rest, the view equals the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import structlog

from entrepot.domain.background import background
from entrepot.domain.errors import AWAY, EntrepotError
from entrepot.domain.key_value import ABSENT, MAX_SCAN, KeyValue, KeyValueChange, KeyValueEvent, is_older
from entrepot.domain.ports import KeyValues

RETRY_SECONDS: Final = 0.2
PAGE_BYTES: Final = 4 << 20
"""Largest total of values in a page of a look; after a larger one the next page is smaller."""
MIN_PAGE: Final = 16
MAX_AHEAD: Final = 10_000
"""Keys known ahead of the watch; beyond it, the first may show an older state for a moment."""

Take = Callable[[Sequence[KeyValueEvent]], None]

log = structlog.get_logger(__name__)


class WatchedKeys:
    """A follower of one prefix; `known` gives the view's keys, which may change while they are read. A deletion found
    by a look has the version `ABSENT`."""

    def __init__(self, key_values: KeyValues, prefix: str, take: Take, known: Callable[[], Iterable[str]]) -> None:
        self._key_values, self._prefix = key_values, prefix
        self._take, self._known = take, known
        self._stop: Callable[[], None] | None = None
        self._beginnings = 0
        self._seen = ABSENT
        """Newest version that the watch has told."""
        self._complete = ABSENT
        """Version up to which all is known: from the watch, or from a look that began after it."""
        self._floor = ABSENT
        """Version before a look: older news of the watch are in that look, or undone."""
        self._leaves_out = False
        """True while news from before the floor are left to a look that has not ended."""
        self._news = asyncio.Event()
        self._ahead: dict[str, int] = {}
        """Versions of keys known from a write or a question, until the watch has told them."""
        self._questions: list[dict[str, int]] = []
        """Versions of keys that change during a question: its answer may be older."""
        self._looking = asyncio.Lock()
        self._is_stale = True
        self._is_following = False
        self._again: asyncio.Task[None] | None = None

    # -- following -----------------------------------------------------------------------------------------------

    async def start(self, wait_seconds: float = 0) -> None:
        """Follow changes and look at all keys; retry for `wait_seconds` while the keeper is away. Raises what the store
        raises. A later start, or `go_on`, tries again."""
        loop = asyncio.get_running_loop()
        end = loop.time() + wait_seconds
        while True:
            try:
                self._open()
                await self._key_values.get([self._prefix])  # answered after the beginning of the watch
                await self._look_until_fresh()
            except EntrepotError as error:
                if error.code not in AWAY or loop.time() >= end:
                    raise
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._is_following = True
            return

    def go_on(self) -> None:
        """Follow changes, and look at all keys in the background until that succeeds."""
        self._is_following = True
        self._open()
        self._look_behind()

    def _look_behind(self) -> None:
        if self._again is None:
            self._again = background().keep("followed key-values", self._look_again)

    def _open(self) -> None:
        if self._stop is None:
            self._stop = self._key_values.watch(self._prefix, self._told, self._begun)

    def close(self) -> None:
        """Stop following."""
        self._is_following = False
        if self._stop is not None:
            self._stop()
            self._stop = None
        if self._again is not None:
            self._again.cancel()
            self._again = None

    @property
    def is_complete(self) -> bool:
        """True once all keys are known, except for changes on their way."""
        return not (self._is_stale or self._looking.locked())

    async def catch_up(self, version: int, patience_seconds: float = 1.0) -> None:
        """Return when a write that also changed keys of this prefix is known; ask for what the watch is late with."""
        end, beginning = asyncio.get_running_loop().time() + patience_seconds, self._beginnings
        await self._look_until_fresh()  # first, the keys from before the watch
        while version != self._complete and not is_older(version, self._complete):
            self._news.clear()
            # a watch that has begun anew does not tell what was before
            if beginning == self._beginnings and self._complete != ABSENT and is_older(self._complete, version):
                try:
                    async with asyncio.timeout_at(end):
                        await self._news.wait()
                    continue
                except TimeoutError:
                    pass
            self._is_stale = True
            if not is_older(version, self._floor):
                self._floor, self._leaves_out = version, True
            beginning = self._beginnings
            await self._look_until_fresh()
            if beginning == self._beginnings:
                self._complete_up_to(version)
            return

    def _complete_up_to(self, version: int) -> None:
        if not is_older(version, self._complete):
            self._complete = version
        self._news.set()

    def _begun(self) -> None:
        """Begin anew: the watch tells later changes only."""
        self._beginnings += 1
        self._seen = self._complete = self._floor = ABSENT
        self._leaves_out = False
        self._is_stale = True
        self._news.set()
        if self._is_following:
            self._look_behind()

    def _told(self, events: Sequence[KeyValueEvent]) -> None:
        news: list[KeyValueEvent] = []
        for event in events:
            if not is_older(event.version, self._seen):
                self._seen = event.version
            if is_older(event.version, self._floor):
                continue
            self._notice(event.key, event.version)
            ahead = self._ahead.get(event.key, ABSENT)
            if is_older(event.version, ahead):
                continue  # late: a write or a question brought a newer one
            if ahead != ABSENT:
                del self._ahead[event.key]
            if event.version != ahead:
                news.append(event)
        self._give(news)
        if not self._leaves_out:
            self._complete_up_to(self._seen)

    def _give(self, events: Sequence[KeyValueEvent]) -> None:
        try:
            if events:
                self._take(events)
        except Exception:  # a fault of the view: the other events must still reach it
            log.exception("a view of key-values failed", prefix=self._prefix)
            for event in events if len(events) > 1 else ():
                self._give([event])

    # -- looking at all of it ------------------------------------------------------------------------------------

    async def _look_again(self) -> None:
        is_told = False
        try:
            while self._is_stale:
                try:
                    await self._look_until_fresh()
                except EntrepotError as error:
                    if not is_told:
                        log.warning("could not read key-values; will retry", prefix=self._prefix, problem=error.message)
                        is_told = True
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._again = None

    async def _look_until_fresh(self) -> None:
        async with self._looking:
            while self._is_stale:
                self._is_stale = False
                floor = self._floor
                try:
                    await self._look_at_all()
                    if floor == self._floor != ABSENT:
                        self._leaves_out = False
                        self._complete_up_to(floor)
                        self._complete_up_to(self._seen)
                except BaseException:
                    self._is_stale = True
                    if self._is_following:
                        self._look_behind()
                    raise

    async def _look_at_all(self) -> None:
        gone: set[str] = set()
        after, limit = "", MIN_PAGE
        with self._question() as changed:
            for number, key in enumerate(self._known(), 1):
                gone.add(key)
                if number % MAX_SCAN == 0:
                    await asyncio.sleep(0)
            while page := await self._key_values.scan(self._prefix, after=after, limit=limit):
                after = page[-1].key
                gone.difference_update(kept.key for kept in page)
                self._give([KeyValueEvent(e.key, e.value, e.version) for e in page if _is_newer(e, changed)])
                is_small = 2 * sum(len(kept.value) for kept in page) <= PAGE_BYTES
                limit = min(2 * limit, MAX_SCAN) if is_small else max(limit // 2, MIN_PAGE)
                await asyncio.sleep(0)
            self._give([KeyValueEvent(key, None, ABSENT) for key in gone.difference(changed)])

    # -- asking and writing --------------------------------------------------------------------------------------

    async def look(self, keys: Sequence[str], at_least: int = ABSENT) -> list[KeyValue | None]:
        """Ask the store for keys; the answer is known here on return. `at_least` is a version that the store has."""
        beginning = None
        while beginning != self._beginnings:  # else another keeper may know better
            beginning = self._beginnings
            with self._question() as changed:
                answers = await self._key_values.get(keys)
        found: list[KeyValueEvent] = []
        for key, kept in zip(keys, answers, strict=True):
            if kept is None:
                if key not in changed or is_older(changed[key], at_least):
                    self._note(key, at_least)
                    found.append(KeyValueEvent(key, None, ABSENT))
            elif _is_newer(kept, changed):
                self._note(key, kept.version)
                found.append(KeyValueEvent(key, kept.value, kept.version))
        for event in found:
            self._notice(event.key, event.version)  # for earlier questions
        self._give(found)
        return answers

    async def write(self, changes: Sequence[KeyValueChange], *others: WatchedKeys) -> int:
        """Write changes as one; on return they are known here and, by prefix, to the others. Raises what the store
        raises: PRECONDITION_FAILED where another writer was first."""
        before = [(each, each._beginnings) for each in (self, *others)]
        version = await self._key_values.write(changes)
        for each, beginning in before:
            own = [change for change in changes if change.key.startswith(each._prefix)]
            if own and each._beginnings == beginning:
                each._wrote(own, version)
            elif own:  # the new keeper may have newer ones, and its watch does not tell older changes
                await each._ask(own, version)
        return version

    def _wrote(self, changes: Sequence[KeyValueChange], version: int) -> None:
        if self._has_told(version):
            return  # and perhaps newer ones
        news: list[KeyValueEvent] = []
        for change in changes:
            ahead = self._ahead.get(change.key, ABSENT)
            if not is_older(version, ahead):  # else a question was answered with a newer one
                self._notice(change.key, version)
                self._note(change.key, version)
                news.append(KeyValueEvent(change.key, change.value, version))
        self._give(news)

    async def _ask(self, changes: Sequence[KeyValueChange], version: int) -> None:
        try:
            await self.look([change.key for change in changes], version)
        except EntrepotError as error:  # the write itself succeeded
            log.debug("could not read written key-values; will retry", prefix=self._prefix, problem=error.message)
            self._is_stale = True
            if self._is_following:
                self._look_behind()

    def _note(self, key: str, version: int) -> None:
        if version == ABSENT or self._has_told(version):
            return
        self._ahead[key] = version
        if len(self._ahead) > MAX_AHEAD:
            del self._ahead[next(iter(self._ahead))]

    def _has_told(self, version: int) -> bool:
        return version == self._seen or is_older(version, self._seen)

    def _notice(self, key: str, version: int) -> None:
        for changed in self._questions:
            if version != ABSENT or key not in changed:
                changed[key] = version

    @contextmanager
    def _question(self) -> Iterator[dict[str, int]]:
        changed: dict[str, int] = {}
        self._questions.append(changed)
        try:
            yield changed
        finally:
            self._questions = [each for each in self._questions if each is not changed]


def _is_newer(answer: KeyValue, changed: Mapping[str, int]) -> bool:
    """True for an answer that is newer than the events that came meanwhile."""
    told = changed.get(answer.key)
    return told is None or (told != ABSENT and is_older(told, answer.version))
