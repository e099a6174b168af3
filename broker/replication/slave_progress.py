"""Runs from a master to a slave, and the slave's progress as the master knows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from entrepot.broker.replication.files.runs import Run
from entrepot.domain.replication.epochs import EpochStart, ForkedError, common_end
from entrepot.domain.replication.greeting import Greeting
from entrepot.domain.replication.mastership import Member, ReplicaState, old_copy


def end_of(waiting: Sequence[Run], end: int) -> int:
    """Return the end of runs that wait to be written at the end of a log."""
    return waiting[-1].offset + len(waiting[-1].data) if waiting else end


@dataclass(slots=True)
class SlaveProgress:
    """A slave as its master knows it. `stream`: number of its stream, -1 when that has ended. `sent`: end of the log on
    its way. `acknowledged`: end that the slave has synced. `had`: the greatest that it ever acknowledged here."""

    stream: int
    member: Member
    sent: int
    acknowledged: int = 0
    had: int = 0

    @property
    def has_lost(self) -> bool:
        """True if it lacks what it had: its disk was put back. It leaves the set until it has copied that."""
        return self.acknowledged < self.had


def objection(state: ReplicaState, greeting: Greeting, *, is_leading: bool) -> str:
    """Return the reason why a replica in this state takes no slave with this greeting, or empty. A wiped one is taken,
    too, and one that has lost its log's end: they copy, and do not count until they are admitted."""
    epoch, heard = state.appointment.epoch, max(greeting.promised, greeting.starts[-1].epoch)
    if not is_leading:
        return f"replica {state.replica} is not master"
    if greeting.group != state.group:
        return f"it is of group {greeting.group}, this is {state.group}"
    if greeting.member.replica == state.replica:
        return f"replica {state.replica} is the master itself: two processes have its id"
    if heard > epoch:
        return f"it has heard of epoch {heard}, this is {epoch}"
    if reason := old_copy(state.appointment.heard, greeting.history):
        return reason
    return ""


def beginning_of_stream(starts: Sequence[EpochStart], begin: int, end: int, greeting: Greeting) -> int:
    """Return the offset from which a slave is sent the log with these starts and bounds. Raises ForkedError."""
    start = common_end(starts, end, greeting.starts, greeting.end)
    if not greeting.end or (start is None and not greeting.confirmed):
        start = begin  # it has nothing yet, or nothing that anybody was told of
    if start is None:
        raise ForkedError("its log has nothing in common with this one: give it an empty disk")
    return max(start, begin)  # retention removed the part between: it copies anew
