"""Asking: requests to a broker or its slave over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from entrepot.broker.remoting.link import ConnectionLostError, Link, OnLate
from entrepot.domain.errors import NOT_THERE, Code, EntrepotError
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.row import Ask

Asked = TypeVar("Asked")
R = TypeVar("R")
_LACKED: Final = NOT_THERE | {Code.OFFSET_NOT_FOUND}
"""Refusals of a slave that are not answers: its master may have what it lacks."""


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
        self, asked: Ask[R], *, seconds: float | None = None, on_late: Callable[[R], None] | None = None
    ) -> R:
        """Return the answer to a request of a port.  Raises its refusal, UNAVAILABLE, REQUEST_TIMEOUT or
        OUTCOME_UNKNOWN.  `on_late` gets an answer that comes after that."""
        row = asked.row
        late = None if on_late is None else lambda payload: on_late(row.read(payload, self))
        return row.read(await self._call(row, asked.payload(), seconds, late), self)

    async def call(self, operation: wire.Operation, *arguments: Any, seconds: float | None = None) -> Any:
        """Return the result of an operation that is not a port's.  Raises as `ask`."""
        answer = await self._call(operation, operation.encode_arguments(*arguments), seconds, None)
        return answer if operation.result is None else operation.result.decode(answer)

    async def _call(
        self, operation: wire.Operation, payload: bytes, seconds: float | None, on_late: OnLate | None
    ) -> bytes:
        self.check_ready()
        seconds = self.request_seconds if seconds is None else seconds
        try:
            answer = await self.link.call(operation, payload, seconds, on_late)
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


async def ask_all(
    brokers: Sequence[Asked], ask: Callable[[Asked], Awaitable[R]]
) -> list[tuple[Asked, R | EntrepotError]]:
    """Return the answer of each broker, or its refusal."""
    found: list[R | EntrepotError] = []
    for answer in await asyncio.gather(*(ask(client) for client in brokers), return_exceptions=True):
        if isinstance(answer, BaseException) and not isinstance(answer, EntrepotError):
            raise answer
        found.append(answer)
    return list(zip(brokers, found, strict=True))


def raise_if_all_lost(answers: Sequence[tuple[object, object]]) -> None:
    """Raise that no broker got it: the request may ride to the next masters."""
    lost = [answer for _, answer in answers if isinstance(answer, ConnectionLostError)]
    if lost and len(lost) == len(answers):
        raise lost[0]
