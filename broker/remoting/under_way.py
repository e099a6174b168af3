"""UnderWay: the requests and streams of one connection that have not ended.

Invariant: every request's callback runs exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import structlog

from entrepot.broker.remoting.requests import ClientStream, ConnectionLostError, OnLate, PendingCall
from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.wire.operation import Operation

MAX_GIVEN_UP: Final = 1024
"""Most given-up requests whose handler of a late answer is remembered."""
log = structlog.get_logger(__name__)


class UnderWay:
    """The requests of one connection. `address`: the peer's, for error texts."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.calls: dict[int, PendingCall] = {}
        self.streams: dict[int, ClientStream] = {}
        self._given_up: dict[int, OnLate] = {}

    def take(self, id_: int) -> PendingCall | None:
        """Take out a request that is to be settled or no longer wanted."""
        return self.calls.pop(id_, None)

    def answered(self, id_: int, error: EntrepotError | None, payload: bytes) -> None:
        """Settle an answered request or end a stream."""
        call = self.take(id_)
        if call is not None:
            settle(call, error, payload)
            return
        stream = self.streams.pop(id_, None)
        if stream is not None:
            tell(stream.on_end, error or EntrepotError(Code.UNAVAILABLE, f"{self._address}: the stream has ended"))

    def give_up(self, id_: int, call: PendingCall) -> None:
        """Give up a request that has left."""
        if call.on_late is not None:
            if len(self._given_up) >= MAX_GIVEN_UP:
                del self._given_up[next(iter(self._given_up))]
            self._given_up[id_] = call.on_late

    def answered_late(self, id_: int, payload: bytes) -> None:
        """Handle the answer to a request that was given up."""
        on_late = self._given_up.pop(id_, None)
        if on_late is not None:
            tell(on_late, payload)

    def overdue(self, call: PendingCall, *, was_sent: bool) -> None:
        """End a request whose time is over."""
        text = f"{self._address} has not answered {call.operation.name} in time"
        if was_sent and not call.operation.is_idempotent:
            settle(call, EntrepotError(Code.OUTCOME_UNKNOWN, f"{text}: its outcome is unknown"), b"")
        else:
            settle(call, EntrepotError(Code.REQUEST_TIMEOUT, text), b"")

    def end(self, problem: str, held: Collection[int]) -> None:
        """End everything with the connection. `held`: requests that never left."""
        for id_, call in self.calls.items():
            settle(call, self._loss(call.operation, problem, was_sent=id_ not in held), b"")
        for stream in self.streams.values():
            tell(stream.on_end, ConnectionLostError(f"{self._address}: {problem}"))

    def _loss(self, operation: Operation, problem: str, *, was_sent: bool) -> EntrepotError:
        if was_sent and not operation.is_idempotent:
            return EntrepotError(
                Code.OUTCOME_UNKNOWN,
                f"{self._address}: {problem} before {operation.name} was answered: its outcome is unknown",
            )
        return ConnectionLostError(f"{self._address}: {problem}")


def settle(call: PendingCall, error: EntrepotError | None, payload: bytes) -> None:
    """Tell the caller; one caller's fault is not the others'."""
    if call.timer is not None:
        call.timer.cancel()
    try:
        call.on_answer(error, payload)
    except Exception:
        log.exception("an answer callback raised", operation=call.operation.name)


def tell(callback: Callable[..., None], *arguments: object) -> None:
    """Tell a listener; one listener's fault is not the others'."""
    try:
        callback(*arguments)
    except Exception:
        log.exception("a connection callback raised")
