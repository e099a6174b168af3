"""Incidents: messages, names and requests that a part could not treat as usual, and what it did instead.

A part that shortens, leaves out, sets aside, passes over or refuses says so here, once per run of messages. So one
mechanism counts it for `/metrics`, logs it at a bounded rate, and keeps the last ones for the operator.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.message import Message, StoredMessage, place_of_message
from entrepot.domain.value_space import Rule, Unsaid

T = TypeVar("T")
R = TypeVar("R")

log = structlog.get_logger(__name__)

MAX_KEPT: Final = 256
"""Incidents that are kept, the latest."""
UNSAID_EVERY_MS: Final = 1000
"""Shortest time between two kept incidents of one kind of unsaid value, in milliseconds."""
MAX_TEXT: Final = 300
"""Characters of a kept reason, place or client."""


def nothing(_item: object) -> None:
    """Nothing more is to be done."""


class Outcome(StrEnum):
    """The treatment of the message or request."""

    SHORTENED = "shortened"
    """Delivered, with a value cut to what the protocol can say."""
    LEFT_OUT = "left-out"
    """Delivered, without a value that the protocol cannot say, or without being retained."""
    SET_ASIDE = "set-aside"
    """Not delivered there: its handling failed, and the others went on."""
    PASSED_OVER = "passed-over"
    """Not delivered to one consumer, which cannot take it; another may get it."""
    DEAD_LETTERED = "dead-lettered"
    REFUSED = "refused"
    """Not taken in; its client was told, if its protocol can say so."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident. `part`: a door or loop; `place`: topic, queue and offset, or a name; `client`: its id."""

    at_ms: int
    part: str
    outcome: Outcome
    reason: str
    place: str
    client: str
    count: int


class Incidents:
    """The incidents of this gateway since its start."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.counts: Counter[tuple[str, Outcome]] = Counter()
        """Messages or requests by part and outcome."""
        self._told_ms: dict[tuple[str, str, Rule], int] = {}
        """Time of the last one kept of each kind of unsaid value: a few dozen rows."""
        self.last: deque[Incident] = deque(maxlen=MAX_KEPT)

    def note(
        self,
        part: str,
        outcome: Outcome,
        reason: str,
        *,
        place: str = "",
        client: str = "",
        count: int = 1,
        fault: BaseException | None = None,
    ) -> None:
        """Count, keep and log. `part`: one of a few words. `fault`: an error of our own, logged with its trace."""
        self.counts[part, outcome] += count
        reason, place, client = reason[:MAX_TEXT], place[:MAX_TEXT], client[:MAX_TEXT]
        self.last.append(Incident(self._clock.now_ms(), part, outcome, reason, place, client, count))
        facts = {name: value for name, value in (("place", place), ("client", client)) if value}
        log.warning(
            "not treated as usual",
            seldom=f"{part} {outcome}",
            part=part,
            outcome=str(outcome),
            reason=reason,
            count=count,
            exc_info=fault,
            **facts,
        )

    def unsaid(self, message: Message, unsaid: Unsaid) -> None:
        """Note a value that a protocol could not say; the rest of its message is delivered.  All are counted; one of a
        kind is kept and logged in a second, as each delivery of such a message tells it anew."""
        now_ms = self._clock.now_ms()
        kind = unsaid.protocol, unsaid.kind, unsaid.rule
        outcome = Outcome.LEFT_OUT if unsaid.rule is Rule.LEFT_OUT else Outcome.SHORTENED
        if abs(now_ms - self._told_ms.get(kind, -UNSAID_EVERY_MS)) < UNSAID_EVERY_MS:
            self.counts[unsaid.protocol, outcome] += 1
            return
        self._told_ms[kind] = now_ms
        name = f" {unsaid.name[:80]!r}" if unsaid.name else ""
        reason = f"{unsaid.kind}{name}: {unsaid.rule}"
        self.note(unsaid.protocol, outcome, reason, place=place_of_message(message))

    def encoded(
        self,
        part: str,
        items: Iterable[T],
        encode: Callable[[T], R],
        message_of: Callable[[T], StoredMessage],
        aside: Callable[[T], object] = nothing,
    ) -> list[R]:
        """Encode each; one that fails is set aside and given to `aside`, and the others go on.  A group's message whose
        lease is left to end comes again, and is a dead letter after the last attempt."""
        done = []
        for item in items:
            try:
                done.append(encode(item))
            except Exception as fault:  # noqa: BLE001 - a fault of one message
                self.set_aside(part, message_of(item), fault)
                aside(item)
        return done

    def set_aside(self, part: str, message: StoredMessage, fault: BaseException) -> None:
        """Note a message whose handling failed, while the others go on."""
        reason = f"{type(fault).__name__}: {fault}"
        self.note(part, Outcome.SET_ASIDE, reason, place=place_of_message(message), fault=fault)
