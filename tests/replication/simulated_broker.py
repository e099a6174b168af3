"""The broker of a simulated master: it takes messages, hands them out, takes acknowledgements, and is read.

Every answer, refusals too, waits until the log's end at which it was found is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.replication.derived_state import Attempt, DerivedState
from tests.replication.simulated_disk import Record

if TYPE_CHECKING:
    from tests.replication.simulated_replica import SimulatedReplica


class Answer(NamedTuple):
    """`kind`: taken, handed, nothing, acknowledged, already, stale, read; `refused` and `unknown` where it did not come
    to that.  `place`: of the log, on which it rests."""

    kind: str
    place: int = -1
    attempt: Attempt | None = None
    records: tuple[Record, ...] = ()


REFUSED: Final = Answer("refused")
UNKNOWN: Final = Answer("unknown")
Respond = Callable[[Answer], Any]


class SimulatedBroker:
    """`state`: derived from the log, of a master all of it, of a slave what is confirmed."""

    def __init__(self, replica: SimulatedReplica) -> None:
        self._replica = replica
        self.state = DerivedState()
        self.is_open = False
        self._waiting: list[tuple[int, Respond, Answer]] = []

    def open(self, state: DerivedState) -> None:
        """Go on from this state."""
        self.state = state

    def close(self, *, answers: bool) -> None:
        """Fail all that waits; a process that dies answers nobody."""
        self.is_open = False
        waiting, self._waiting = self._waiting, []
        for _, respond, _ in waiting if answers else ():
            respond(UNKNOWN)

    def confirmed(self, offset: int) -> None:
        """Everything before an offset is: whoever waits for it is told."""
        ready = [each for each in self._waiting if each[0] <= offset]
        self._waiting = [each for each in self._waiting if each[0] > offset]
        for _, respond, answer in ready:
            respond(answer)

    def _answer(self, respond: Respond, answer: Answer, *, is_decision: bool = False) -> None:
        end = len(self._replica.disk.log)
        is_hasty = is_decision and self._replica.group.planted.answers_at_once
        if is_hasty or end <= self._replica.live.confirmed:
            respond(answer)
        else:
            self._waiting.append((end, respond, answer))

    # -- what clients ask ----------------------------------------------------------------------------------------

    def publish(self, number: int, respond: Respond) -> None:
        self.publish_all([number], lambda answers: respond(answers[0]))

    def publish_all(self, numbers: list[int], respond: Callable[[list[Answer]], Any]) -> None:
        """A batch of a gateway's."""
        answers = [Answer("taken", self._take(number)) for number in numbers] if self._takes else None
        self._answer_all(numbers, respond, answers)

    def publish_missing(self, numbers: list[int], respond: Callable[[list[Answer]], Any]) -> None:
        """Of a batch in doubt what the log has not."""
        places = {
            record.content[1]: record.name[2] for record in self._replica.disk.log if record.content[0] == "message"
        }
        takes = self._takes
        answers = [
            Answer("taken", places[number])
            if number in places
            else Answer("taken", self._take(number))
            if takes
            else REFUSED
            for number in numbers
        ]
        self._answer_all(numbers, respond, answers)

    @property
    def _takes(self) -> bool:
        return self.is_open and self._replica.live.state.appointment.takes_messages

    def _take(self, number: int) -> int:
        return self._replica.append("message", number).name[2]

    def _answer_all(
        self, numbers: list[int], respond: Callable[[list[Answer]], Any], answers: list[Answer] | None
    ) -> None:
        def told(answer: Answer) -> None:
            is_known = answer is not UNKNOWN and answers is not None
            respond(answers if is_known and answers is not None else [answer] * len(numbers))

        if answers is None:
            told(REFUSED)
        else:
            self._answer(told, Answer("all"))

    def pop(self, respond: Respond) -> None:
        """The first message that nobody has acknowledged or been given lately."""
        if not self.is_open:
            respond(REFUSED)
            return
        log, state = self._replica.disk.log, self.state
        now = max(log[-1].at, self._replica.wall)
        for message in state.messages:
            given = state.attempts.get(message)
            if message not in state.acknowledged and (given is None or given[1] + self._replica.group.lock <= now):
                record = self._replica.append("pop", message)
                self._answer(respond, Answer("handed", record.name[2], Attempt(message, record.name)))
                return
        self._answer(respond, Answer("nothing"), is_decision=True)

    def acknowledge(self, attempt: Attempt, respond: Respond) -> None:
        if not self.is_open:
            respond(REFUSED)
            return
        given = self.state.attempts.get(attempt.message)
        place = self.state.acknowledged.get(attempt.message)
        if place is not None:
            self._answer(respond, Answer("already", place), is_decision=True)
        elif given is None or given[0] != attempt:
            self._answer(respond, Answer("stale", -1 if given is None else given[0].record[2]), is_decision=True)
        else:
            record = self._replica.append("ack", attempt.message)
            self._answer(respond, Answer("acknowledged", record.name[2], attempt))

    def read(self, begin: int, most: int, respond: Respond) -> None:
        """The log from an offset on, as far as it is confirmed."""
        if not self.is_open:
            respond(REFUSED)
            return
        ahead = self._replica.group.planted.serves_what_is_written
        end = len(self._replica.disk.log) if ahead else self._replica.live.confirmed
        records = tuple(self._replica.disk.log[begin : min(end, begin + most)])
        respond(Answer("read", begin, records=records))
