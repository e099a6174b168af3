"""Waiting: since when consumers of a queue here wait for messages, and the share of time in which they could have some.

That share is RabbitMQ's `consumer_capacity`, which `consumer_utilisation` repeats: less than 1 if messages waited while
no consumer had credit, because of its prefetch limit or its connection.  While consumers have no credit nobody asks
the store what waits.  The answer to the next pop tells it: a message in it that was stored before the credit came back
has waited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from entrepot.domain.clock import Clock
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.protocols.wire.stored_record import STORE_TIME_AT, unpack_store_time

HALF_LIFE_MS: Final = 1000
"""Time after which what was before counts half, as at RabbitMQ."""


class Waiting:
    """The waits of one queue's consumers here."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.since_ms: int | None = None
        """Time since when consumers have had credit, and the store was asked for messages; None if none has."""
        self._pauses = 0
        self.capacity = Capacity(clock.now_ms())

    def begin(self, pauses: int) -> None:
        """Note that consumers wait from now on, unless they have waited for longer without a pause.  `pauses`: those of
        the feed so far, in which it asked for nothing."""
        if self.since_ms is None or pauses != self._pauses:
            now_ms = self._clock.now_ms()
            if self.since_ms is None:
                self.capacity.is_back(now_ms)
            self._pauses, self.since_ms = pauses, now_ms

    def has_come(self, tickets: Sequence[Ticket]) -> None:
        """Note the answer to a pop, in the order of the queue."""
        if tickets and self.capacity.is_in_doubt:
            self.capacity.has_waited_since(_stored_ms(tickets[0]))

    def end(self) -> None:
        """Note that no consumer has credit."""
        if self.since_ms is not None:
            self.since_ms = None
            self.capacity.is_gone(self._clock.now_ms())


class Capacity:
    """The share of time in which messages could be delivered at once, a moving average.  It begins with 1."""

    def __init__(self, now_ms: int) -> None:
        self._average = 1.0
        self._since_ms = now_ms
        """End of the time that is in the average."""
        self._gone_ms: int | None = None
        self._back_ms: int | None = None
        """Times at which the last credit was used up, and at which there was some again."""

    @property
    def is_in_doubt(self) -> bool:
        """True if it is not known yet whether messages waited while there was no credit."""
        return self._back_ms is not None

    def is_gone(self, now_ms: int) -> None:
        """Note the end of all credit."""
        self._gone_ms, self._back_ms = now_ms, None

    def is_back(self, now_ms: int) -> None:
        """Note new credit."""
        if self._gone_ms is not None:
            self._back_ms = now_ms

    def has_waited_since(self, stored_ms: int) -> None:
        """Settle the doubt: a message was there from a time on, perhaps after the credit came back."""
        gone_ms, back_ms, self._gone_ms, self._back_ms = self._gone_ms, self._back_ms, None, None
        if gone_ms is not None and back_ms is not None and (begin_ms := max(gone_ms, stored_ms)) < back_ms:
            self._average = self._with(begin_ms - self._since_ms, back_ms - begin_ms)
            self._since_ms = back_ms

    def share(self, now_ms: int, *, is_ready: bool) -> float:
        """Return the share up to now, from 0 to 1.  `is_ready`: messages of the queue wait."""
        end_ms = self._gone_ms if is_ready and self._back_ms is None and self._gone_ms is not None else now_ms
        return self._with(end_ms - self._since_ms, now_ms - end_ms)

    def _with(self, able_ms: int, unable_ms: int) -> float:
        """The average with further time, in which messages could be delivered, and could not."""
        if (length_ms := able_ms + unable_ms) <= 0:
            return self._average
        weight: float = 0.5 ** (length_ms / HALF_LIFE_MS)
        return able_ms / length_ms * (1 - weight) + self._average * weight


def _stored_ms(ticket: Ticket) -> int:
    record = ticket.record
    if record is None:
        return ticket.message.store_time_ms
    stored_ms: int = unpack_store_time(record, STORE_TIME_AT)[0]
    return stored_ms
