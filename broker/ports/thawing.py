"""Thawing: fetches the cold messages that decisions missed (`broker.consume.thawed`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

import structlog

from entrepot.broker.cold.reads import ColdReads
from entrepot.broker.consume.thawed import Item, Missed, NotThawedError, Thawed
from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.expression.filter import compile_filter
from entrepot.domain.position import Position

PAGE: Final = 1024
"""Messages of a page."""
MAX_ROUNDS: Final = 8
"""Most rounds of a decision: messages missing by then are too many to be here at once."""
T = TypeVar("T")
log = structlog.get_logger(__name__)


class Thawing:
    """The thawing of one broker. Nothing under way is fetched twice."""

    def __init__(self, thawed: Thawed, loop: asyncio.AbstractEventLoop) -> None:
        self._thawed, self._loop = thawed, loop
        self._under_way: dict[Missed, asyncio.Task[None]] = {}

    async def decided(self, decide: Callable[[], Awaitable[T]]) -> T:
        """Return a decision, repeated until nothing is missed. Raises the tier's error, and TOO_MANY_REQUESTS for a
        decision that needs too many cold messages at once."""
        for _ in range(MAX_ROUNDS):
            try:
                return await decide()
            except NotThawedError as error:
                await self.fetch(error.missed)
        raise EntrepotError(Code.TOO_MANY_REQUESTS, "this needs too many cold messages at once: ask for fewer")

    async def fetch(self, missed: Iterable[Missed]) -> None:
        """Fetch missing messages. Raises EntrepotError where the tier gives none; they may be asked for again."""
        tasks = self._begun(missed)
        found = await asyncio.gather(*map(asyncio.shield, tasks), return_exceptions=True)  # others wait for them, too
        failures = [failure for failure in found if failure is not None]
        if failures and len(failures) == len(tasks):
            raise failures[0]

    def fetch_soon(self, missed: Iterable[Missed]) -> None:
        """As `fetch`, with nobody waiting: a failure is logged."""
        for task in self._begun(missed):
            task.add_done_callback(_tell)

    def close(self) -> None:
        for task in self._under_way.values():
            task.cancel()

    def _begun(self, missed: Iterable[Missed]) -> list[asyncio.Task[None]]:
        tasks = []
        for each in dict.fromkeys(missed):
            task = self._under_way.get(each)
            if task is None and not self._thawed.has(each):
                task = self._under_way[each] = self._loop.create_task(self._fetch(each))
                task.add_done_callback(lambda _, each=each: self._under_way.pop(each))  # type: ignore[misc]
            if task is not None:
                tasks.append(task)
        return tasks

    async def _fetch(self, missed: Missed) -> None:
        tier = self._thawed.tier
        assert tier is not None, "without a tier nothing is cold"
        if missed.start is not None:
            self._thawed.put_start(missed.queue, missed.start, await self._start(tier, missed))
            return
        wanted = None if missed.wanted is None else compile_filter(missed.wanted)
        try:
            page = await tier.read(missed.queue, missed.offset, missed.most or PAGE, wanted)
        except CorruptedError as corrupted:
            self._thawed.put(missed, {missed.offset: corrupted}, missed.offset + 1)
            return
        if page.next_offset <= missed.offset:
            raise EntrepotError(
                Code.UNAVAILABLE, f"message {missed.offset} of topic {missed.queue.topic!r} is not in the tier yet"
            )
        items: dict[int, Item] = {message.queue_offset: message for message in page.messages}
        self._thawed.put(missed, items, page.next_offset)

    async def _start(self, tier: ColdReads, missed: Missed) -> int:
        if isinstance(missed.start, Position):
            return await tier.since(missed.queue, missed.start.value)
        assert missed.start is not None, "it was asked for"
        return await tier.behind(missed.queue, missed.start)


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("cold messages could not be read", seldom="tier", problem=str(error))
