"""Contest: one election of one group, driven by the leading controller.

QUIESCING   a planned move: the old master holds writes back until the next one has everything
BEGINNING   the end of the old mastership is being committed
FENCING     every replica is asked to promise the epoch
DECIDING    the appointment is being committed
OPENING     everybody is told; the new master confirms its EPOCH record
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum

from entrepot.broker.controller.clocks import OffClocks
from entrepot.domain.replication.election import Election, ElectionError, first_election
from entrepot.domain.replication.lost_ends import KnownLogs
from entrepot.domain.replication.mastership import NOBODY, Appointment, FenceAnswer, Promise


class Phase(Enum):
    QUIESCING = "quiescing"
    BEGINNING = "beginning"
    FENCING = "fencing"
    DECIDING = "deciding"
    OPENING = "opening"


class Contest:
    """One election. `reason`: a sentence. `wanted`: next master, or NOBODY. `avoided`: not to win. `lost`: replicas
    that an operator gives up. `is_gentle`: only if the next master has caught up. `requests`: of operators that wait
    for its end."""

    def __init__(
        self,
        group: str,
        reason: str,
        *,
        wanted: int = NOBODY,
        avoided: int = NOBODY,
        lost: Sequence[int] = (),
        is_unclean: bool = False,
        is_gentle: bool = False,
        requests: Sequence[int] = (),
    ) -> None:
        self.group, self.reason = group, reason
        self.wanted, self.avoided, self.lost, self.is_unclean = wanted, avoided, tuple(lost), is_unclean
        self.is_gentle = is_gentle
        self.requests = list(requests)
        self.phase = Phase.BEGINNING
        self.deadline = 0.0
        self.order = 0  # number of the order that it waits for
        self.promise = Promise()
        self.awaited: set[int] = set()
        self.answers: dict[int, FenceAnswer] = {}
        self.refusal: Promise | None = None
        self.target = NOBODY  # that catches up in a planned move
        self.made: Appointment | None = None
        self.why_not = ""  # the wanted one could not be chosen, in words

    def fence(self, awaited: Collection[int], number: int, deadline: float) -> None:
        """Wait for the promises of these replicas until the deadline at most."""
        self.phase, self.awaited, self.order, self.deadline = Phase.FENCING, set(awaited), number, deadline

    def answered(self, replica: int, answer: FenceAnswer | Promise) -> None:
        self.awaited.discard(replica)
        if isinstance(answer, FenceAnswer):
            self.answers[replica] = answer
        elif self.refusal is None or answer.epoch > self.refusal.epoch:
            self.refusal = answer

    def decide(
        self, latest: Appointment, counting: Collection[int], off: OffClocks, known: KnownLogs | None = None
    ) -> Appointment:
        """Return the appointment that replaces `latest`. `counting`: ids of the replicas under the rule; for a group's
        first master all of them must have answered, except lost ones. `off`: replicas whose clock is. `known`: earlier
        words about logs. Raises ElectionError."""
        epoch, token = self.promise.epoch, self.promise.token
        if latest.known:
            election = Election(
                epoch,
                token,
                latest=latest,
                lost=self.lost,
                wanted=self.wanted,
                avoided=self.avoided,
                is_unclean=self.is_unclean,
            )
            election.known = known or election.known
        else:
            answers = [self.answers[replica] for replica in sorted(self.answers) if replica in counting]
            if missing := set(counting) - self.answers.keys() - set(self.lost):
                raise ElectionError(f"the group's first master needs all replicas: {sorted(missing)} do not answer")
            if not answers:
                raise ElectionError("no replica answers")
            election = first_election(epoch, token, latest.rule, answers)
        election.barred, election.deferred = off.ahead, off.behind
        for answer in self.answers.values():
            election.answered(answer)
        if self.refusal is not None:
            election.answered(self.refusal)
        try:
            return election.decide()
        except ElectionError as error:
            if election.wanted == NOBODY:
                raise
            self.why_not = str(error)
            election.wanted = NOBODY  # the replicas are fenced: somebody must lead
            return election.decide()
