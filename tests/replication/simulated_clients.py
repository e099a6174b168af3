"""Clients of a simulated group, and the ledger of what they were told.

Each has one request under way.  What it is told is checked when the broker says it, against what is confirmed then: an
answer from unconfirmed state is found though it never arrives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.replication.derived_state import Attempt
from tests.replication.simulated_broker import UNKNOWN, Answer
from tests.replication.simulated_replica import SimulatedReplica

if TYPE_CHECKING:
    from tests.replication.simulated_group import Group

TIMEOUT: Final = 120.0
THINKING: Final = 8.0


class Ledger:
    """`published`: what clients were told of each message, by its number."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self.published: dict[int, str] = {}
        self.acknowledged: set[Attempt] = set()
        self.answers = 0

    def next_number(self) -> int:
        return len(self.published) + 1

    def check(self, answer: Answer, replica: SimulatedReplica, number: int = 0, attempt: Attempt | None = None) -> None:
        """Look at an answer when the broker gives it.  A master that does not know of its end yet may deny what came
        after it: that is asked of the next one again."""
        group, place = self._group, answer.place
        truth, state = group.truth, group.truth_state
        self.answers += 1
        kind = answer.kind
        is_there = -1 <= place < len(truth)
        if kind == "taken":
            is_there = is_there and truth[place].content[:2] == ("message", number)
        elif kind == "handed":
            is_there = is_there and answer.attempt is not None and truth[place].name == answer.attempt.record
        elif kind == "acknowledged" or kind == "already":
            assert attempt is not None
            is_there = is_there and state.acknowledged.get(attempt.message) == place
            if kind == "acknowledged":
                group.require(attempt not in self.acknowledged, f"{attempt} is acknowledged twice")
                self.acknowledged.add(attempt)
        elif kind == "stale":
            assert attempt is not None
            last = state.attempts.get(attempt.message)
            is_later = attempt.record[2] >= group.confirmed_by(replica.live.epoch)
            is_there = is_later or (is_there and last is not None and last[0] != attempt)
        elif kind == "read":
            is_there = tuple(truth[place : place + len(answer.records)]) == answer.records
        group.require(is_there, f"{answer} is told, and is not so in what is confirmed")

    def check_end(self, bodies: set[int]) -> None:
        """Nobody has a message of which somebody was told that it was not taken.  `bodies`: of all logs."""
        for number, told in sorted(self.published.items()):
            self._group.require(
                told != "refused" or number not in bodies, f"message {number} was refused, and is there"
            )


class Client:
    """One that does something, waits for the answer, thinks, and goes on.  `slot` is below those of replicas."""

    def __init__(self, group: Group, slot: int, kind: str) -> None:
        self.group, self.slot, self.kind = group, slot, kind
        self._chance = group.clock.chance(f"client {slot}")
        self._asked = 0
        self._read_to = 0
        self._attempts: list[Attempt] = []
        self._think()

    def take(self, act: object, *arguments: object) -> None:
        assert callable(act)
        act(*arguments)

    def _think(self) -> None:
        self.group.clock.after(self._chance.expovariate(1 / THINKING), self._ask)

    def _ask(self) -> None:
        if self.group.is_quiet:
            return
        self._asked += 1
        target = self.group.address_of(self.group.register.decided.master)
        if self._chance.random() < 0.1:
            target = self._chance.choice(list(self.group.processes.values()))
        ask = {"producer": self._publish, "consumer": self._consume, "reader": self._read}[self.kind]
        ask(self._asked, target)
        self.group.clock.after(TIMEOUT, self._told, self._asked, UNKNOWN)

    def _publish(self, asked: int, target: SimulatedReplica) -> None:
        """At a replica, as no client does that has a gateway."""
        ledger = self.group.ledger
        number = ledger.next_number()
        ledger.published[number] = "unknown"

        def respond(answer: Answer) -> None:
            ledger.check(answer, target, number)
            if answer.kind == "refused":
                ledger.published[number] = "refused"
            self.group.network.send_once(target, self, self._told, asked, answer)

        self.group.network.send_once(self, target, lambda: target.broker.publish(number, respond))

    def _consume(self, asked: int, target: SimulatedReplica) -> None:
        ledger = self.group.ledger
        attempt = self._chance.choice(self._attempts) if self._attempts and self._chance.random() < 0.6 else None

        def respond(answer: Answer) -> None:
            ledger.check(answer, target, attempt=attempt)
            self.group.network.send_once(target, self, self._told, asked, answer)

        if attempt is None:
            self.group.network.send_once(self, target, lambda: target.broker.pop(respond))
        else:
            self.group.network.send_once(self, target, lambda: target.broker.acknowledge(attempt, respond))

    def _read(self, asked: int, target: SimulatedReplica) -> None:
        begin = self._read_to

        def respond(answer: Answer) -> None:
            self.group.ledger.check(answer, target)
            self.group.network.send_once(target, self, self._told, asked, answer)

        self.group.network.send_once(self, target, lambda: target.broker.read(begin, 10, respond))

    def _told(self, asked: int, answer: Answer) -> None:
        if asked != self._asked:
            return
        self._asked += 1
        if answer.kind == "handed" and answer.attempt is not None:
            self._attempts = [*self._attempts[-3:], answer.attempt]  # an acknowledged one is tried again, too
        elif answer.kind == "read":
            self._read_to = answer.place + len(answer.records)
        self._think()
