"""RecordedStore: a store by its ports, each call of a client written down with its times and what became of it.

What is unknown is told with care: a call failed only where its refusal says that nothing was done, or that it never
left.  A call that is cancelled, or under way at the end, is of unknown outcome.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

from entrepot.broker.remoting.link import ConnectionLostError
from entrepot.domain.clock import Clock
from entrepot.domain.delivery import Deliveries, Receipt, handle_of
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.ports import PopRequest, Store
from tests.history.operations import (
    Acknowledge,
    AnyOperation,
    Change,
    Get,
    Hand,
    Item,
    Outcome,
    Pop,
    Publish,
    Read,
    Tailed,
    Write,
    encode,
)

REFUSALS: Final = frozenset(
    {
        Code.BAD_REQUEST,
        Code.INVALID_RECEIPT_HANDLE,
        Code.ILLEGAL_OFFSET,
        Code.FORBIDDEN,
        Code.TOPIC_NOT_FOUND,
        Code.CONSUMER_GROUP_NOT_FOUND,
        Code.REQUEST_TIMEOUT,
        Code.PRECONDITION_FAILED,
        Code.TOO_MANY_REQUESTS,
        Code.STORAGE_FULL,
    }
)
"""Codes by which nothing was done.  A request whose time is over has REQUEST_TIMEOUT where it had not left, else
OUTCOME_UNKNOWN."""


def outcome_of(error: EntrepotError | None) -> dict[str, Any]:
    if error is None:
        return {"outcome": Outcome.OK}
    is_sure = error.code in REFUSALS or isinstance(error, ConnectionLostError)
    return {"outcome": Outcome.FAILED if is_sure else Outcome.UNKNOWN, "code": error.code.name}


def digest_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def item_of(message: StoredMessage) -> Item:
    return Item(message.queue_offset, message.message_id.decode("utf-8", "replace"), digest_of(message.body))


class Recorder:
    """Writes operations into a file as they end.  `operations`: all of them."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path, self.operations = path, list[AnyOperation]()
        self._clock = clock
        self._file = path.open("wb")

    def begin(self, client: str) -> dict[str, Any]:
        return {"client": client, "begun": time.monotonic_ns(), "begun_ms": self._clock.now_ms()}

    def end(self, begun: dict[str, Any]) -> dict[str, Any]:
        return {**begun, "ended": time.monotonic_ns(), "ended_ms": self._clock.now_ms()}

    def write(self, operation: AnyOperation) -> None:
        self.operations.append(operation)
        self._file.write(encode(operation))

    def close(self) -> None:
        self._file.close()


@dataclass(slots=True)
class _Told:
    """What became of a call: unknown, until it says otherwise."""

    error: EntrepotError | None = field(default_factory=lambda: EntrepotError(Code.OUTCOME_UNKNOWN, "it did not end"))
    times: dict[str, Any] = field(default_factory=dict)


class RecordedStore:
    """`mastership`: something else with each master, None while there is none: reads in between may be of a slave."""

    def __init__(self, store: Store, recorder: Recorder, mastership: Callable[[], object]) -> None:
        self._store, self.recorder, self._mastership = store, recorder, mastership
        self._batches = count()

    @asynccontextmanager
    async def _call(self, client: str, write: Callable[[_Told], None]) -> AsyncIterator[_Told]:
        """Refusals end here: the history has them."""
        told, begun = _Told(), self.recorder.begin(client)
        try:
            yield told
            told.error = None
        except EntrepotError as refusal:
            told.error = refusal
        finally:
            told.times = self.recorder.end(begun)
            write(told)

    async def publish(self, client: str, messages: Sequence[Message]) -> None:
        """A batch for one queue; the body of a message begins with its id."""
        refusals: Sequence[EntrepotError | None] | None = None
        batch = next(self._batches)

        def write(told: _Told) -> None:
            for place, each in enumerate(messages):
                refusal = refusals[place] if refusals is not None else None
                sent = Publish(
                    **told.times,
                    **({"outcome": Outcome.FAILED, "code": refusal.code.name} if refusal else outcome_of(told.error)),
                    topic=each.topic,
                    queue=each.queue_id,
                    message=each.message_id.decode(),
                    digest=digest_of(each.body),
                    message_group=each.message_group,
                    batch=batch,
                    place=place,
                )
                self.recorder.write(sent)

        async with self._call(client, write):
            confirmation = self._store.messages.append(messages)
            try:
                refusals = await confirmation.wait()
            finally:
                refusals = confirmation.refusals

    async def pop(self, client: str, request: PopRequest, *, is_fifo: bool) -> Deliveries:
        found = Deliveries()
        assert request.invisible_ms is not None

        def write(told: _Told) -> None:
            hands = tuple(
                Hand(each.message.queue_id, item_of(each.message), each.attempt, each.receipt_handle) for each in found
            )
            popped = Pop(
                **told.times,
                **outcome_of(told.error),
                topic=request.topic,
                group=request.group,
                invisible_ms=request.invisible_ms or 0,
                is_fifo=is_fifo,
                hands=hands,
            )
            self.recorder.write(popped)

        async with self._call(client, write):
            found = await self._store.consumption.pop(request)
        return found

    async def acknowledge(self, client: str, topic: str, group: str, receipts: Sequence[Receipt]) -> None:
        outcomes: Sequence[EntrepotError | None] = ()

        def write(told: _Told) -> None:
            for place, receipt in enumerate(receipts):
                outcome = outcome_of(outcomes[place] if outcomes else told.error)
                names: dict[str, Any] = {"topic": topic, "group": group, "handle": handle_of(receipt)}
                self.recorder.write(Acknowledge(**told.times, **outcome, **names))

        async with self._call(client, write):
            outcomes = await self._store.consumption.acknowledge(topic, group, receipts)

    async def change(
        self,
        client: str,
        topic: str,
        group: str,
        receipts: Sequence[Receipt],
        delay_ms: int,
        *,
        release: bool,
        suspend: bool,
    ) -> None:
        outcomes: Sequence[EntrepotError | None] = ()

        def write(told: _Told) -> None:
            for place, receipt in enumerate(receipts):
                changed = Change(
                    **told.times,
                    **outcome_of(outcomes[place] if outcomes else told.error),
                    topic=topic,
                    group=group,
                    handle=handle_of(receipt),
                    delay_ms=delay_ms,
                    is_release=release,
                    is_suspended=suspend,
                )
                self.recorder.write(changed)

        change = self._store.consumption.change_invisible_duration
        async with self._call(client, write):
            outcomes = await change(topic, group, receipts, delay_ms, release=release, suspend=suspend)

    async def read(self, client: str, topic: str, queue: int, first: int, most: int) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        before = self._mastership()

        def write(told: _Told) -> None:
            may_lag = before is None or before != self._mastership()
            read = Read(
                **told.times,
                **outcome_of(told.error),
                topic=topic,
                queue=queue,
                first=first,
                most=most,
                may_lag=may_lag,
                items=tuple(map(item_of, found)),
            )
            self.recorder.write(read)

        async with self._call(client, write):
            found = await self._store.messages.read(topic, queue, first, most)
        return found

    def note_tailed(self, client: str, topic: str, queue: int, messages: Sequence[StoredMessage]) -> None:
        """A tail from the beginning has handed messages over."""
        times, items = self.recorder.end(self.recorder.begin(client)), tuple(map(item_of, messages))
        self.recorder.write(Tailed(**times, topic=topic, queue=queue, tail=client, first=0, items=items))

    async def write(self, client: str, key: str, value: str, expected: int | None) -> None:
        version = 0

        def write(told: _Told) -> None:
            what: dict[str, Any] = {"key": key, "value": value, "expected": expected, "version": version}
            self.recorder.write(Write(**told.times, **outcome_of(told.error), **what))

        async with self._call(client, write):
            version = await self._store.key_values.write([KeyValueChange(key, value.encode(), expected)])

    async def get(self, client: str, key: str) -> int:
        """The version that it has."""
        value, version = "", 0

        def write(told: _Told) -> None:
            what: dict[str, Any] = {"key": key, "value": value, "version": version}
            self.recorder.write(Get(**told.times, **outcome_of(told.error), **what))

        async with self._call(client, write):
            [found] = await self._store.key_values.get([key])
            if found is not None:
                value, version = found.value.decode(), found.version
        return version
