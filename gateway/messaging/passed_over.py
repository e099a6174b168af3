"""PassedOver: messages that a consumer of a group cannot take, whatever its credit, such as one too large for it.

Another consumer may take them. So they go back with a delay: their reader goes on with what lies after them, and no
message comes round at once. A message that no consumer here can take has failed, as one that a consumer gave back:
after the group's last attempt it is a dead letter with the reason. Consumers of other gateways, and those that come
back, have the time until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import UNLIMITED_ATTEMPTS
from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.messaging.ticket import Ticket, by_consumer

AGAIN_MS: Final = 200
"""Shortest delay of a message whose taker has no room now, in milliseconds."""
PACE_MS: Final = 1
"""Least time between two such messages that come again, in milliseconds: many of them cost little."""
FIRST_MS: Final = 200
LONGEST_MS: Final = 2_000
"""Limits of the delay, doubled with each attempt, after nobody here could take a message, in milliseconds. The group's
retry policy may make it longer."""
LONGEST_ENDLESS_MS: Final = 30_000
"""`LONGEST_MS` in a group whose attempts have no limit."""
MAX_ATTEMPTS_IN_ORDER: Final = 6
"""Attempts of a message in a FIFO group, where what follows it in its message group waits."""


class Untaken(NamedTuple):
    """A message that a consumer cannot take. `client`: its id, if it has one. `fault`: an error of our own."""

    ticket: Ticket
    reason: str
    client: str = ""
    fault: Exception | None = None


def reason_of(fault: Exception) -> str:
    """The reason of a message whose hand-out failed."""
    return f"its hand-out failed: {type(fault).__name__}: {fault}"


def no_case(tickets: Sequence[Ticket]) -> Sequence[Ticket]:
    """Default of `came_back`: the group alone limits the attempts."""
    return ()


class PassedOver:
    """The messages of one group's consumers at this gateway. `part`: their name in incidents. `came_back` returns those
    that came back too often by other rules than the group's; it settles them itself."""

    def __init__(
        self,
        part: str,
        incidents: Incidents,
        clock: Clock,
        came_back: Callable[[Sequence[Ticket]], Sequence[Ticket]] = no_case,
    ) -> None:
        self._part, self._incidents, self._clock = part, incidents, clock
        self._came_back = came_back
        self._last_ms = 0
        """Time at which the last one of those that wait comes again."""

    def note(self, untaken: Sequence[Untaken], outcome: Outcome = Outcome.PASSED_OVER) -> None:
        """Tell of them, once for each reason and client. Those passed over with a fault of our own are set aside."""
        kinds: dict[tuple[str, str], list[Untaken]] = {}
        for each in untaken:
            kinds.setdefault((each.reason, each.client), []).append(each)
        for (reason, client), same in kinds.items():
            place, fault = same[0].ticket.place, same[0].fault
            is_fault = fault is not None and outcome is Outcome.PASSED_OVER
            became = Outcome.SET_ASIDE if is_fault else outcome
            self._incidents.note(self._part, became, reason, place=place, client=client, count=len(same), fault=fault)

    def wait(self, tickets: Sequence[Ticket]) -> None:
        """Give back messages whose taker has no room now. That is not an attempt: nobody failed."""
        now_ms = self._clock.now_ms()
        due_ms = max(now_ms + AGAIN_MS, self._last_ms + PACE_MS)
        self._last_ms = due_ms + PACE_MS * (len(tickets) - 1)
        for consumer, some in by_consumer(tickets).items():
            consumer.release(some, due_ms - now_ms, suspend=True)

    def fail(self, untaken: Sequence[Untaken]) -> None:
        """Give back messages that nobody here can take, for consumers elsewhere and later ones; after the last attempt
        they become dead letters."""
        spent = self._came_back([each.ticket for each in untaken])
        dead: list[Untaken] = []
        again: dict[tuple[str, int], list[Ticket]] = {}
        for each in untaken:
            ticket = each.ticket
            if ticket in spent or not ticket.is_open:
                continue
            if ticket.attempt >= _most_attempts(ticket):
                dead.append(each)
            else:
                again.setdefault((each.reason, ticket.attempt), []).append(ticket)
        for (reason, attempt), tickets in again.items():
            for consumer, some in by_consumer(tickets).items():
                group = consumer.definition
                longest_ms = LONGEST_ENDLESS_MS if group.max_attempts >= UNLIMITED_ATTEMPTS else LONGEST_MS
                doubled_ms = min(FIRST_MS << min(attempt - 1, 16), longest_ms)
                consumer.release(some, max(doubled_ms, group.retry.delay_ms(attempt)), reason=reason)
        if dead:
            self.note(dead, Outcome.DEAD_LETTERED)
        for each in dead:
            each.ticket.consumer.reject((each.ticket,), each.reason)


def _most_attempts(ticket: Ticket) -> int:
    most = ticket.consumer.definition.max_attempts
    return min(most, MAX_ATTEMPTS_IN_ORDER) if ticket.message_group else most
