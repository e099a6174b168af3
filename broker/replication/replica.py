"""Replica: one replica of a broker group, as a pure machine: events come in, effects go out.

    nobody   follows no master: just started, or promised to an election that has not ended
    slave    copies the master's log, syncs, and reports the synced end
    master   appends; records on the rule's disks are confirmed

Invariants:

    one byte string for each (epoch, run, offset)
    a promise, a run's number and a cut are durable before anybody is told, or anything is written after them
    nothing is confirmed in an epoch before its EPOCH record is
    confirmed never moves back; a cut below it is a loud stop, unless the master's history had an unclean start
    a replica that has promised a later epoch acknowledges nothing of an earlier one
    an old copy of a data directory, with later starts known to others, counts nowhere and is not a master

ADR 47: one log on several disks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from entrepot.broker.replication.effects import (
    Announce,
    AppendEpoch,
    Close,
    Confirm,
    Effect,
    Open,
    Persist,
    RefuseSlave,
    Unfollow,
    WelcomeSlave,
)
from entrepot.broker.replication.following_replica import FollowingReplica, Role
from entrepot.broker.replication.slave_progress import SlaveProgress, beginning_of_stream, objection
from entrepot.domain.replication.confirmation_rule import RuleKind, confirmed_offset
from entrepot.domain.replication.election import with_member
from entrepot.domain.replication.epochs import EpochStart, ForkedError
from entrepot.domain.replication.greeting import Greeting, Welcome
from entrepot.domain.replication.mastership import (
    NOBODY,
    Appointment,
    FenceAnswer,
    Member,
    Promise,
    ReplicaState,
    RunHistory,
    has_heard,
    old_copy,
)


class Replica(FollowingReplica):
    """The machine of one replica (see the module)."""

    def __init__(self, state: ReplicaState, starts: Sequence[EpochStart], end: int, confirmed: int, begin: int = 0):
        super().__init__(state, starts, end, confirmed, begin)
        self.is_open = False
        self.epoch_end: int | None = None  # after its EPOCH record, once that is written
        self.slaves: dict[int, SlaveProgress] = {}
        self.is_controlled = False  # controllers decide, and their word outweighs other replicas'
        self.registered: tuple[RunHistory, ...] | None = None  # starts that the controllers have heard of; None: away
        self.wanted: set[Member] = set()  # slaves that have everything, and wait for that
        self.kept_out: frozenset[int] = frozenset()  # slaves that were let go, and have not come back for good
        self.discounted: frozenset[int] = frozenset()  # replicas that are to leave a quorum: nobody waits for them

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self, token: str = "") -> list[Effect]:
        """Begin a new run of its process, with a random token. A former master goes on as such, where no other can have
        confirmed meanwhile."""
        if self.state.refused:  # a further start would be one more that cannot be told from those heard
            self.halted = self.state.refused
            return []
        self.state = self.state.begun(token)
        effects: list[Effect] = [Persist(self.state)]
        appointment = self.state.appointment
        if self.state.promise.epoch > appointment.epoch or appointment.master == NOBODY:
            return effects
        if appointment.master != self.state.replica:
            return effects + self._follow()
        if self.state.member not in appointment.members:
            return effects  # this directory is not the one that was appointed
        if self.needs_nobody:
            return effects  # another may have been appointed, and have confirmed alone: `nobody_later` excludes it
        return effects + self._lead()

    @property
    def needs_nobody(self) -> bool:
        """True where it could confirm alone, and so goes on as master only when it knows of no later one; and where
        controllers must first hear of its start, which reveals an old copy."""
        appointment = self.state.appointment
        if self.is_controlled:
            return True
        is_alone = appointment.rule.kind is RuleKind.ASYNC or not appointment.others(appointment.members)
        return is_alone and appointment.rule.kind is not RuleKind.QUORUM and len(appointment.known) > 1

    @property
    def waits_for_word(self) -> bool:
        """True for a former master that goes on once it hears that nobody is a later one."""
        known = self.state.appointment
        is_master = known.master == self.state.replica and self.state.member in known.members
        return self.role is Role.NOBODY and is_master and self.state.promise.epoch <= known.epoch

    def nobody_later(self) -> list[Effect]:
        """Go on as master: every other replica was heard, and none has promised a later epoch."""
        return self._lead() if self.waits_for_word else []

    def _is_copy(self, reason: str) -> list[Effect]:
        """Note that it lacks a later start's records: it can be neither a master nor a slave that counts."""
        self.halted = reason
        effects = self._resign(reason) if self.role is Role.MASTER else []
        if self.is_controlled and not self.state.refused:
            self.state = replace(self.state, refused=reason)
            effects.append(Persist(self.state))
        return effects

    # -- elections -----------------------------------------------------------------------------------------------

    def fence(self, epoch: int, token: str) -> tuple[list[Effect], FenceAnswer | Promise]:
        """Promise an epoch; the answer is told after the effects. An earlier promise in the way is returned instead."""
        promise = self.state.promise
        if epoch < max(promise.epoch, self.epoch + 1) or (epoch == promise.epoch and token != promise.token):
            return [], max(promise, Promise(self.epoch), key=lambda each: each.epoch)
        effects: list[Effect] = []
        if epoch > promise.epoch:
            self.state = replace(self.state, promise=Promise(epoch, token))
            effects = [Persist(self.state), *self._resign(f"an election of epoch {epoch}")]
        return effects, self.state.promised(self.starts[-1], self.synced, self.confirmed)

    def _resign(self, reason: str) -> list[Effect]:
        """Become nobody."""
        role, self.role, self.is_open = self.role, Role.NOBODY, False
        self.lost()
        self.slaves.clear()
        self.wanted.clear()
        self.discounted = frozenset()
        self.epoch_end = None
        if role is Role.MASTER:
            return [Close(reason)]
        return [Unfollow()] if role is Role.SLAVE else []

    def appoint(self, appointment: Appointment) -> list[Effect]:
        """Take a decided appointment. An earlier one than is known changes nothing."""
        known = self.state.appointment
        if self.state.group and appointment.group not in ("", self.state.group):
            return []  # of another group
        effects: list[Effect] = []
        if reason := self.state.lacks(appointment):
            effects = self._is_copy(reason)
        if not appointment.supersedes(known) or appointment.epoch < self.state.promise.epoch:
            return effects
        appointment = appointment.after(known)
        promise = max(self.state.promise, Promise(appointment.epoch), key=lambda each: each.epoch)
        self.state = replace(self.state, appointment=appointment, promise=promise)
        effects.append(Persist(self.state))
        if appointment.epoch == known.epoch and self.role is Role.MASTER:
            return effects + self._confirm()  # another set
        if appointment.epoch == known.epoch and self.role is Role.SLAVE:
            return effects
        effects += self._resign(f"replica {appointment.master} is master in epoch {appointment.epoch}")
        if appointment.master != self.state.replica:
            return effects + self._follow()
        is_elected = not self.is_controlled or has_heard(appointment.heard, self.state.history)
        if not is_elected or (appointment.epoch == known.epoch and self.needs_nobody):
            return effects  # it has begun anew since: as in `start`
        return effects + (self._lead() if self.state.member in appointment.members else [])

    def hear_appointment(self, appointment: Appointment) -> list[Effect]:
        """Take an appointment that another replica reports."""
        is_news = not self.is_controlled or appointment.epoch > self.epoch
        return self.appoint(appointment) if is_news else []

    def admit_waiting(self) -> list[Effect]:
        """Admit slaves that have everything confirmed, though nothing new has come for them."""
        return [effect for slave in [*self.slaves.values()] if slave.stream >= 0 for effect in self._admit(slave)]

    # -- master --------------------------------------------------------------------------------------------------

    def _lead(self) -> list[Effect]:
        self.halted = self.halted or self.state.lacks(self.state.appointment)
        if self.halted:
            return []
        self.role = Role.MASTER
        return [*self._hear_of(self.state.history), AppendEpoch(self.state.start_behind(self.starts[-1]))]

    def _hear_of(self, told: RunHistory) -> list[Effect]:
        """Have a start of a replica, its own too, known to all before anything of it counts."""
        heard = self.state.appointment.with_heard(told)
        if heard is self.state.appointment:
            return []
        self.state = replace(self.state, appointment=heard)
        return [Persist(self.state), Announce(heard)]

    def epoch_written(self, start: EpochStart, end: int) -> list[Effect]:
        """Note that the EPOCH record is written; `end` is after it."""
        self.starts.append(start)
        if self.role is Role.MASTER and start.name == (self.epoch, self.state.run):
            self.epoch_end = end
        self.wrote(end)
        return []

    def wrote(self, end: int) -> None:
        """Note that the master's log has grown: a sync of it is under way, and it may be sent."""
        self.end = end

    def greeted(self, greeting: Greeting, stream: int) -> list[Effect]:
        """Take a slave's greeting."""
        member, replica = greeting.member, greeting.member.replica
        if reason := old_copy(greeting.heard, self.state.history):
            return [RefuseSlave(replica, stream, reason), *([] if self.is_controlled else self._is_copy(reason))]
        is_leading, known = self.role is Role.MASTER and self.epoch_end is not None, self.slaves.get(replica)
        if reason := objection(self.state, greeting, is_leading=is_leading):
            return [RefuseSlave(replica, stream, reason)]
        try:
            start = beginning_of_stream(self.starts, self.begin, self.end, greeting)
        except ForkedError as error:
            return [RefuseSlave(replica, stream, str(error))]
        effects = self._hear_of(greeting.history)
        if self.registered is not None and not has_heard(self.registered, greeting.history):
            return [*effects, RefuseSlave(replica, stream, "the controllers have not heard of its start yet")]
        known = known if known is not None and known.member == member else SlaveProgress(stream, member, start)
        has, had = min(known.acknowledged, start), max(known.acknowledged, known.had)
        self.slaves[replica] = SlaveProgress(stream, member, start, has, had)
        is_unclean = any(each.is_unclean and each.start >= start for each in self.starts)
        before = tuple(each for each in self.starts if each.start < start)
        welcome = Welcome(self.epoch, self.state.run, start, self.confirmed, is_unclean, before, self.state.appointment)
        return [*effects, WelcomeSlave(replica, stream, welcome)]

    def sending(self, replica: int, stream: int, end: int) -> None:
        """Note that a run up to an offset is on its way to a slave."""
        slave = self.slaves.get(replica)
        if slave is not None and slave.stream == stream:
            slave.sent = max(slave.sent, end)

    def acknowledged(self, replica: int, stream: int, end: int) -> list[Effect]:
        """Note the synced end of a slave's log."""
        slave = self.slaves.get(replica)
        if slave is None or slave.stream != stream:
            return []
        if end > slave.sent:
            del self.slaves[replica]
            return [RefuseSlave(replica, stream, f"it acknowledges {end}, {slave.sent} was sent")]
        slave.acknowledged = max(slave.acknowledged, end)
        return [*self._confirm(), *self._admit(slave)]

    def _admit(self, slave: SlaveProgress) -> list[Effect]:
        """Take a slave that has everything confirmed into the set.

        That needs no controller. A controller that knows only the earlier set is safe with it: its members, and those
        of the later one, have everything confirmed from now on. Letting one go is not safe, and not done here.
        """
        appointment = self.state.appointment
        is_member = slave.member in appointment.members or not appointment.counts(slave.member.replica)
        if is_member or slave.member.replica in self.kept_out or not self.has_all(slave):
            return []
        if self.is_controlled and replaces_another(slave.member, appointment):
            self.wanted.add(slave.member)
            return []
        return self.change_set(with_member(appointment, slave.member))

    def change_set(self, appointment: Appointment) -> list[Effect]:
        """Take a later version of its own appointment, as master."""
        self.state = replace(self.state, appointment=appointment)
        return [Persist(self.state), Announce(appointment), *self._confirm()]

    def reserve_version(self) -> tuple[list[Effect], int]:
        """Return a version that no appointment of this epoch has except the one about to be proposed with it."""
        known = self.state.appointment
        self.state = replace(self.state, appointment=replace(known, version=known.version + 2))
        return [Persist(self.state)], known.version + 1

    def slave_gone(self, replica: int, stream: int) -> None:
        """Note the end of a stream."""
        slave = self.slaves.get(replica)
        if slave is not None and slave.stream == stream:
            slave.stream = -1  # its acknowledgements still hold

    def _confirm(self) -> list[Effect]:
        """Move the confirmed offset as far as the rule allows."""
        if self.role is not Role.MASTER or self.epoch_end is None:
            return []
        offset = self._on_disks()
        if offset < self.epoch_end or offset <= self.confirmed:
            return []
        self.confirmed = offset
        effects: list[Effect] = [Confirm(offset)]
        if not self.is_open:
            self.is_open = True
            effects.append(Open())
        return effects

    def _on_disks(self) -> int:
        """Return the offset before which the rule's disks have everything, without those that are to leave a quorum."""
        appointment = self.state.appointment
        counted = set(appointment.known) | set(appointment.members)
        ends = {
            replica: slave.acknowledged
            for replica, slave in self.slaves.items()
            if slave.member in counted and replica not in self.discounted
        }
        return confirmed_offset(appointment.rule, self.synced, ends, appointment.others(appointment.members))

    @property
    def needs_no_discounted(self) -> bool:
        """True if everything confirmed is so without them."""
        return self.is_open and self._on_disks() >= self.confirmed

    def has_all(self, slave: SlaveProgress) -> bool:
        """True if a slave has everything confirmed. A master that is not open yet may not know what is, but for one
        that an operator has put in the place of lost disks: nothing counts but its log."""
        is_known = self.is_open or self._is_all_that_counts
        return is_known and slave.stream >= 0 and slave.acknowledged >= max(self.confirmed, self.epoch_end or 0)

    @property
    def _is_all_that_counts(self) -> bool:
        """True for the master of an unclean election that has not begun anew since: it has confirmed nothing yet."""
        starts = sum(start.epoch == self.epoch for start in self.starts)
        return self.state.appointment.is_unclean and self.epoch_end is not None and starts == 1

    def synced_to(self, end: int, generation: int | None = None) -> list[Effect]:
        if self.role is not Role.MASTER:
            return super().synced_to(end, generation)
        if generation not in (None, self.generation):
            return []
        self._is_syncing = False
        self.synced = max(self.synced, end)
        return self._confirm()


def replaces_another(member: Member, appointment: Appointment) -> bool:
    """True if an earlier directory of the replica still counts: if it came back, nobody may take it for this one."""
    if appointment.rule.kind is RuleKind.QUORUM:
        return member not in appointment.known
    return any(each.replica == member.replica for each in appointment.members)
