"""FollowingReplica: the half of a replica's machine that copies its master's log (invariants: `replica.py`)."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from enum import Enum

from entrepot.broker.replication.effects import (
    Acknowledge,
    BeginAt,
    Confirm,
    Cut,
    Effect,
    Follow,
    Halt,
    Sync,
    Unfollow,
    Write,
)
from entrepot.broker.replication.files.runs import Run
from entrepot.broker.replication.slave_progress import end_of
from entrepot.domain.replication.epochs import BEGINNING, EpochStart, start_before
from entrepot.domain.replication.greeting import Greeting, Welcome, greeting_of
from entrepot.domain.replication.mastership import Appointment, ReplicaState


class Role(Enum):
    NOBODY = "nobody"
    SLAVE = "slave"
    MASTER = "master"


class FollowingReplica:
    """A follower's log. `end`: of the written part; `synced`: of the durable part; `confirmed`: as known here."""

    def __init__(self, state: ReplicaState, starts: Sequence[EpochStart], end: int, confirmed: int, begin: int):
        self.state = state
        self.starts = list(starts) or [BEGINNING]
        self.begin, self.end, self.synced, self.confirmed = begin, end, end, confirmed
        self.role = Role.NOBODY
        self.halted = ""
        self.is_joined = self.has_greeted = False
        self.welcomed_in = self.told = 0  # the last epoch whose master took it; the end that it has confirmed
        self._waiting: deque[Run] = deque()
        self._is_syncing = False
        self.generation = 0  # of the log's files: an answer to an earlier generation's sync is ignored

    @property
    def epoch(self) -> int:
        return self.state.appointment.epoch

    @abstractmethod
    def hear_appointment(self, appointment: Appointment) -> list[Effect]:
        """Take an appointment that another replica reports."""

    def _halt(self, reason: str) -> list[Effect]:
        self.halted = reason
        return [Halt(reason)]

    def _follow(self) -> list[Effect]:
        self.role = Role.SLAVE
        self.is_joined = False
        return [Follow(self.state.appointment.master)]

    def greeting(self) -> Greeting:
        """Return the first message to its master, once connected. Unsynced records count as missing, and until the
        welcome nothing more is confirmed."""
        self.lost()
        self.has_greeted = True
        return greeting_of(self.state, self.synced, self.confirmed, self.starts)

    def lost(self) -> None:
        """Note the end of the connection to the master: until the next welcome nothing more is confirmed."""
        self.is_joined = self.has_greeted = False
        self._waiting.clear()
        self.told = self.confirmed

    def welcomed(self, welcome: Welcome) -> list[Effect]:
        """Take the master's welcome: cut everything that the master lacks, then copy."""
        if self.role is not Role.SLAVE or welcome.epoch != self.epoch:
            return []
        heard = self.hear_appointment(welcome.appointment)
        if welcome.start < self.confirmed and not welcome.is_unclean:
            return self._halt(
                f"the master of epoch {welcome.epoch} has nothing after {welcome.start}, and {self.confirmed} "
                "is confirmed here: a disk was put back to an earlier state. Stop that master and elect this replica "
                "(entrepot cluster elect --unclean --to), or start this one with an empty directory"
            )
        effects: list[Effect] = []
        if welcome.start < self.end:
            lost = [start for start in self.starts if start.start >= welcome.start]
            own = bytes.fromhex(self.state.incarnation)
            writers = lost or self.starts[-1:]
            was_confirmed = welcome.start < self.confirmed
            keeps = was_confirmed or any(writer.incarnation == own for writer in writers)
            effects.append(Cut(welcome.start, keeps, was_confirmed))
            self._keep_starts_before(welcome.start)
            self.confirmed = min(self.confirmed, welcome.start)
        if not self.end or welcome.start <= self.begin or welcome.start > self.end:  # nothing of its own is left
            self.begin, self.starts = welcome.start, list(welcome.starts) or [BEGINNING]
            effects.append(BeginAt(welcome.start))
            self.confirmed = welcome.start
        if effects:
            self.generation += 1
            self._is_syncing = False
        self.end = self.synced = welcome.start
        self.is_joined, self.welcomed_in = True, welcome.epoch
        self._waiting.clear()
        self.told = welcome.confirmed
        return [*heard, *effects, Acknowledge(self.synced), *self._hear()]

    def came(self, run: Run) -> list[Effect]:
        """Take records of the master's log."""
        if not self.is_joined:
            return []
        if run.offset != end_of(self._waiting, self.end):
            self.is_joined = False
            return [Unfollow(), Follow(self.state.appointment.master)]
        self._waiting.append(run)
        self.told = max(self.told, run.confirmed)
        return self._write_next() + self._hear()

    def copied(self, runs: Sequence[Run], before: tuple[int, int]) -> list[Effect]:
        """Take confirmed records at the end of the log, from a replica whose log before them ends in the same start:
        this log may have changed since they were asked for."""
        end, starts = end_of(self._waiting, self.end), [s for each in self._waiting for s in each.starts]
        is_next = runs[0].offset == end and start_before([*self.starts, *starts], end) == before
        if self.role is not Role.SLAVE or self.has_greeted or self.welcomed_in != self.epoch or not is_next:
            return []
        self._waiting += runs
        self.told = max(self.told, *(run.confirmed for run in runs))
        return self._write_next()

    def _write_next(self) -> list[Effect]:
        """Write records whose floor is reached here: after a crash, others would look like damage."""
        effects: list[Effect] = []
        while self._waiting and self._waiting[0].floor <= self.synced:
            run = self._waiting.popleft()
            if run.data:
                effects.append(Write(run.offset, run.data))
                self.starts += run.starts
                self.end = run.offset + len(run.data)
        if not self._is_syncing and self.end > self.synced:
            self._is_syncing = True
            effects.append(Sync(self.generation))
        return effects

    def reopened(self, end: int) -> None:
        """Note that the store was opened anew: all of its log is durable."""
        self.end = self.synced = end
        self._keep_starts_before(end)
        self.generation += 1
        self._is_syncing = False

    def write_failed(self, end: int) -> None:
        """End the log here, where there was no room, and drop the stream."""
        self.lost()
        self.end = end
        self._keep_starts_before(end)
        self.generation += 1
        self._is_syncing = False  # it may have been dropped with the write

    def _keep_starts_before(self, end: int) -> None:
        """Drop the epochs after the end of the log."""
        self.starts = [start for start in self.starts if start.start < end] or [BEGINNING]

    def synced_to(self, end: int, generation: int | None = None) -> list[Effect]:
        """Note the durable end of its own log. `generation`: of the sync that was asked for; None: of now."""
        if generation not in (None, self.generation):
            return []
        self._is_syncing = False
        self.synced = max(self.synced, end)
        told: list[Effect] = [Acknowledge(self.synced)] if self.is_joined else []
        return [*told, *self._hear(), *self._write_next()]

    def _hear(self) -> list[Effect]:
        """Confirm what the master has confirmed, as far as it is here."""
        offset = min(self.told, self.synced)
        if offset <= self.confirmed:
            return []
        self.confirmed = offset
        return [Confirm(offset)]
