"""Asking: requests to a broker or its slave over the wire, with global numbers for its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from entrepot.broker.remoting.link import ConnectionLostError, Link, OnLate
from entrepot.domain.broker_of_queue import first_place, first_queue
from entrepot.domain.definitions.consumer_group import GroupStatus, QueueProgress
from entrepot.domain.errors import NOT_THERE, Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.domain.topic import QueueBounds
from entrepot.protocols.remoting import operations as wire
from entrepot.protocols.remoting.message_batch import decode_stored

Asked = TypeVar("Asked")
_LACKED: Final = NOT_THERE | {Code.OFFSET_NOT_FOUND}
"""Refusals of a slave that are no answer: its master may have what it lacks."""


class Asking:
    """A broker or slave to ask.  `link`: its connection.  `request_seconds`: longest wait for an answer.  `may_lag`: it
    is a slave."""

    may_lag = False
    link: Link
    request_seconds: float
    number: int
    is_ready: bool

    @property
    def name(self) -> str:
        raise NotImplementedError

    def check_ready(self) -> None:
        """Raise UNAVAILABLE while it is away."""
        if not self.is_ready:
            raise ConnectionLostError(f"broker {self.name!r} is not available: {self.link.problem or 'starting'}")

    async def ask(
        self,
        operation: wire.Operation,
        *arguments: Any,
        seconds: float | None = None,
        on_late: OnLate | None = None,
    ) -> Any:
        """Return the result of an operation.  Raises its refusal, UNAVAILABLE, REQUEST_TIMEOUT or OUTCOME_UNKNOWN.
        `on_late` gets an answer that comes after that."""
        self.check_ready()
        seconds = self.request_seconds if seconds is None else seconds
        try:
            answer = await self.link.ask(operation, *arguments, seconds=seconds, on_late=on_late)
        except EntrepotError as refusal:
            if refusal.code is Code.BAD_REQUEST and refusal.message.endswith(wire.NOT_HERE):
                text = f"broker {self.name!r} is not available: its master has moved"
                raise ConnectionLostError(text) from refusal
            if self.may_lag and refusal.code in _LACKED:
                text = f"{self.name} copies a log, and lacks this so far: {refusal.message}"
                raise ConnectionLostError(text) from refusal
            self._check_same(operation)
            raise
        self._check_same(operation)
        return answer

    def _check_same(self, operation: wire.Operation) -> None:
        """Raise UNAVAILABLE for an answer from a process that has not told yet what it is.  A request that is repeated
        over a new connection may reach a slave, which lacks what its master had."""
        if operation.is_idempotent:
            self.check_ready()

    async def ask_messages(self, operation: wire.Operation, *arguments: Any) -> list[StoredMessage]:
        """Return the messages that an operation finds."""
        return self.decode(await self.ask(operation, *arguments))

    def decode(self, payload: bytes) -> list[StoredMessage]:
        return decode_stored(payload, self.number)

    def world_queue(self, queue_id: int) -> int:
        return first_queue(self.number) + queue_id

    def world_place(self, place: int) -> int:
        return first_place(self.number) + place

    def world_bounds(self, bounds: Sequence[QueueBounds]) -> list[QueueBounds]:
        if not self.number and not self.may_lag:
            return list(bounds)
        return [replace(each, queue_id=self.world_queue(each.queue_id), may_lag=self.may_lag) for each in bounds]

    def world_progress(self, status: GroupStatus) -> list[QueueProgress]:
        return [
            QueueProgress(p.topic, self.world_queue(p.queue_id), p.committed_offset, p.max_offset, p.in_flight, p.lag)
            for p in status.progress
        ]


async def ask_all(brokers: Sequence[Asked], ask: Callable[[Asked], Any]) -> list[tuple[Asked, Any]]:
    """Return the answer of each broker, or its refusal."""
    found = await asyncio.gather(*(ask(client) for client in brokers), return_exceptions=True)
    for answer in found:
        if isinstance(answer, BaseException) and not isinstance(answer, EntrepotError):
            raise answer
    return list(zip(brokers, found, strict=True))
