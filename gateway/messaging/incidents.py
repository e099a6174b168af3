"""Incidents: messages, names and requests that a part could not treat as usual, and what it did instead.

A part that shortens, leaves out, sets aside, passes over or refuses says so here, once per run of messages. So one
mechanism counts it for `/metrics`, logs it at a bounded rate, and keeps the last ones for the operator.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.message import StoredMessage
from entrepot.domain.value_space import Rule, Unsaid

log = structlog.get_logger(__name__)

MAX_KEPT: Final = 256
"""Incidents that are kept, the latest."""
MAX_TEXT: Final = 300
"""Characters of a kept reason, place or client."""


class Outcome(StrEnum):
    """What became of the message or request."""

    SHORTENED = "shortened"
    """Delivered, with a value cut to what the protocol can say."""
    LEFT_OUT = "left-out"
    """Delivered, without a value that the protocol cannot say."""
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

    def unsaid(self, message: StoredMessage, unsaid: Unsaid) -> None:
        """Note a value that a protocol could not say; the rest of its message is delivered."""
        name = f" {unsaid.name[:80]!r}" if unsaid.name else ""
        outcome = Outcome.LEFT_OUT if unsaid.rule is Rule.LEFT_OUT else Outcome.SHORTENED
        reason = f"{unsaid.kind}{name}: {unsaid.rule}"
        self.note(unsaid.protocol, outcome, reason, place=place_of_message(message))

    def set_aside(self, part: str, message: StoredMessage, fault: BaseException) -> None:
        """Note a message whose handling failed, while the others go on."""
        reason = f"{type(fault).__name__}: {fault}"
        self.note(part, Outcome.SET_ASIDE, reason, place=place_of_message(message), fault=fault)


def place_of_message(message: StoredMessage) -> str:
    """The place of a stored message, for incidents."""
    return place_of(message.topic, message.queue_id, message.queue_offset)


def place_of(topic: str, queue_id: int, offset: int) -> str:
    """The place of a stored message, as operators write it: `topic/queue@offset`."""
    return f"{topic}/{queue_id}@{offset}"
