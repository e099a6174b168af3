"""RetainedWriter: writes retained messages into the store's key-values.

Changes of one tick, and those during a write, become the next write, as far as one takes them; the last change of a
name counts. There is one write at a time, so a name's writes are in order. A call too large for one write becomes
several; the first failure ends it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog

from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import MAX_CHANGES, MAX_WRITE_BYTES, KeyValueChange
from entrepot.gateway.messaging.answer import Answer

MAX_WAITING_BYTES: Final = 64 << 20
"""Bytes that may wait to be written; more are refused."""

log = structlog.get_logger(__name__)

OnWritten = Callable[[EntrepotError | None], None]


@dataclass(frozen=True, slots=True)
class NameChange:
    """The new value of a topic name, or None. `is_new`: nothing was retained for it before."""

    name: str
    key: str
    value: bytes | None
    is_new: bool

    @property
    def size(self) -> int:
        """Bytes it takes of a write, at least."""
        return len(self.key) + len(self.value or b"")


@dataclass(slots=True)
class _Call:
    changes: Sequence[NameChange]
    on_written: OnWritten
    size: int


class RetainedWriter:
    """The writer; values of the store's `write` are known here when it returns."""

    def __init__(self, write: Callable[[Sequence[KeyValueChange]], Awaitable[int]]) -> None:
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._calls: deque[_Call] = deque()
        self._is_scheduled = False
        self._writing: asyncio.Task[None] | None = None
        self.waiting_bytes = 0
        self.waiting_names = 0
        """New names that wait to be written; one that waits twice counts twice."""

    def write(self, changes: Sequence[NameChange], on_written: OnWritten) -> None:
        """Write changes; `on_written` gets the failure, or None when all are durable, but not before this returns."""
        size = sum(change.size for change in changes)
        if changes and self.waiting_bytes and self.waiting_bytes + size > MAX_WAITING_BYTES:
            refusal = EntrepotError(Code.TOO_MANY_REQUESTS, "too much waits to be retained")
            self._loop.call_soon(on_written, refusal)
            return
        self._calls.append(_Call(changes, on_written, size))
        self._count(changes, size, 1)
        if not self._is_scheduled and self._writing is None:
            self._is_scheduled = True
            self._loop.call_soon(self._begin)

    async def settle(self) -> None:
        """Return when earlier changes are written, or have failed."""
        settled: Answer[None] = Answer()
        self.write((), settled)
        with suppress(EntrepotError):
            await settled

    def _count(self, changes: Sequence[NameChange], size: int, sign: int) -> None:
        self.waiting_bytes += sign * size
        self.waiting_names += sign * sum(change.is_new for change in changes)

    def _begin(self) -> None:
        self._is_scheduled = False
        self._writing = background(self._loop).start("writes of retained messages", self._write_all())

    async def _write_all(self) -> None:
        try:
            while self._calls:
                calls = self._take()
                failure = await self._write_calls(calls)
                for call in calls:
                    self._count(call.changes, call.size, -1)
                    try:
                        call.on_written(failure)
                    except Exception:  # the other callers wait for their answers, too
                        log.exception("an answer about retained messages failed")
        finally:
            self._writing = None

    def _take(self) -> list[_Call]:
        """Take the calls for one write; a first call larger than a write goes alone."""
        calls = [self._calls.popleft()]
        count, size = len(calls[0].changes), calls[0].size
        while self._calls:
            following = self._calls[0]
            count, size = count + len(following.changes), size + following.size
            if count > MAX_CHANGES or size > MAX_WRITE_BYTES:
                break
            calls.append(self._calls.popleft())
        return calls

    async def _write_calls(self, calls: Sequence[_Call]) -> EntrepotError | None:
        last = {change.key: change for call in calls for change in call.changes}
        try:
            for part in _parts(list(last.values())):
                await self._write([KeyValueChange(change.key, change.value) for change in part])
        except EntrepotError as failure:
            return failure
        except Exception:  # a fault of our own: every caller must get an answer
            log.exception("retained messages could not be written")
            return EntrepotError(Code.INTERNAL_ERROR, "the message could not be retained")
        return None


def _parts(changes: Sequence[NameChange]) -> Iterator[list[NameChange]]:
    """Yield the changes in parts, each as much as one write takes."""
    part: list[NameChange] = []
    size = 0
    for change in changes:
        if part and (len(part) == MAX_CHANGES or size + change.size > MAX_WRITE_BYTES):
            yield part
            part, size = [], 0
        part.append(change)
        size += change.size
    if part:
        yield part
