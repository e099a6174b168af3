"""SetKeeping: a master has the controllers' register follow its set.

The master lets nobody go by itself: until the register has the smaller set, it waits for the union of both. Admitting
one needs nobody: a controller that knows only the earlier set is safe with it (ADR 47).

Invariants:

    the register's set is part of the master's own
    a smaller set counts here only where the register has it, and no earlier proposal can take its place any more

Each proposal names the version that it is made from, and the register takes it only in place of that one. So a proposal
whose answer was lost is void once the register is seen with a later version. A proposal of a smaller set has a version
of its own, below all later ones of this master. Pure; the caller knows who is gone.

An operator's choice of the replicas that count is carried out the same way. A replica that is to leave a quorum is no
longer waited for, and goes once everything confirmed is so without it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from entrepot.broker.replication.effects import Effect
from entrepot.broker.replication.following_replica import Role
from entrepot.broker.replication.replica import Replica, replaces_another
from entrepot.domain.replication.confirmation_rule import RuleKind
from entrepot.domain.replication.control import SetChange
from entrepot.domain.replication.election import admitted
from entrepot.domain.replication.mastership import Appointment, Member, has_heard


class SetKeeping:
    """The keeping of one master's set. `gone`: ids of replicas that are to leave the set. `counting`: of those that are
    to count; empty: as they do."""

    def __init__(self, machine: Replica) -> None:
        self._machine = machine
        self._register = Appointment()
        self._last_base = (0, 0)
        self._is_proposing = False
        self.gone: frozenset[int] = frozenset()
        self.counting: frozenset[int] = frozenset()

    @property
    def known(self) -> tuple[int, int]:
        """Order of the register's appointment, as last heard."""
        return self._register.order

    def heard(self, decided: Appointment) -> list[Effect]:
        """Take an appointment that the register has, or had."""
        effects = self._machine.appoint(decided)
        if decided.order > self._register.order:
            if decided.epoch > self._register.epoch:  # an earlier run of this master may have proposed something
                self._last_base = decided.order
            self._register = decided
            effects += self._take()
        return effects + self._go_on()

    def _go_on(self) -> list[Effect]:
        """Go on as a master begun anew, once the register has its start."""
        machine, register = self._machine, self._register
        machine.registered = register.heard if register.epoch == machine.epoch else machine.registered
        is_same = (register.epoch, register.master) == (machine.epoch, machine.state.replica)
        if is_same and machine.waits_for_word and has_heard(register.heard, machine.state.history):
            return machine.nobody_later()
        return []

    def away(self) -> None:
        """Admit slaves without the register, which does not answer."""
        self._machine.registered = None

    def proposal(self) -> tuple[list[Effect], SetChange | None]:
        """Return the next proposal, or None, and the effects that must be done first."""
        machine, register = self._machine, self._register
        own = machine.state.appointment
        if self._is_proposing or register.epoch != own.epoch:
            return [], None
        if machine.waits_for_word and not machine.halted:
            return self._propose(self._wanted(own).with_heard(machine.state.history), [])
        if machine.role is not Role.MASTER:
            return [], None
        effects = machine.admit_waiting()
        own = machine.state.appointment
        is_void_needed = self._discount(own)
        wanted = self._wanted(own)
        if wanted == own and not is_void_needed and (own.order < register.order or _same(own, register)):
            return effects, None
        return self._propose(wanted, effects)

    def _propose(self, wanted: Appointment, effects: list[Effect]) -> tuple[list[Effect], SetChange]:
        """Return a proposal. It gets a new version unless it is this replica's, and later than the register's."""
        register = self._register
        if wanted != self._machine.state.appointment or wanted.order == register.order:
            reserving, version = self._machine.reserve_version()
            effects, wanted = effects + reserving, replace(wanted, version=version)
        self._is_proposing, self._last_base = True, register.order
        return effects, SetChange(wanted, register.order)

    def _wanted(self, own: Appointment) -> Appointment:
        if own.rule.kind is RuleKind.QUORUM:  # only the register admits: an earlier run may not have read that
            counting = {member.replica for member in self._register.known}  # an operator re-admits a dismissed one
            waiting = [member for member in self._machine.wanted if member.replica in counting]
            known = admitted(self._register.known, waiting)
            going = self._going(known, own) if self._machine.needs_no_discounted else frozenset()
            return _counted_by(own, self._joined(known, going))
        staying = tuple(member for member in own.members if not self._is_leaving(member, own))
        return _counted_by(replace(own, members=staying), self._joined(own.known, self._going(own.known, own)))

    def _going(self, known: tuple[Member, ...], own: Appointment) -> frozenset[int]:
        """Return replicas that are to count no more, while enough of the others follow."""
        machine, ids = self._machine, frozenset(member.replica for member in known)
        staying = ids & (self.counting | {own.master})
        following = {slave.member for slave in machine.slaves.values() if slave.stream >= 0}
        there = [
            each for each in known if each.replica in staying and (each in following or each.replica == own.master)
        ]
        is_enough = machine.is_open and len(there) >= max(own.rule.required, own.rule.min_in_sync)
        return ids - staying if self.counting and is_enough else frozenset()

    def _joined(self, known: tuple[Member, ...], going: frozenset[int]) -> tuple[Member, ...]:
        """Return those that count, plus slaves that are to count and have everything, minus those that are not to
        count."""
        machine, ids = self._machine, {member.replica for member in known}
        joining = [
            slave.member
            for replica, slave in machine.slaves.items()
            if replica in self.counting - ids and replica not in machine.kept_out and machine.has_all(slave)
        ]
        return tuple(member for member in admitted(known, joining) if member.replica not in going)

    def _discount(self, own: Appointment) -> bool:
        """Wait no longer for replicas that are to leave a quorum; again for those that are to stay, once no proposal
        can let them go. True if a new proposal has to see to that."""
        going = self._going(own.known, own) if own.rule.kind is RuleKind.QUORUM else frozenset()
        is_settled = self._register.order > self._last_base
        self._machine.discounted = going if is_settled else self._machine.discounted | going
        return self._machine.discounted != going

    def _is_leaving(self, member: Member, own: Appointment) -> bool:
        """True if it is gone, or is to count no more, or its replica has come back with another directory."""
        slave = self._machine.slaves.get(member.replica)
        is_replaced = slave is not None and slave.member != member
        is_going = member.replica in self.gone | self._going(own.known, own)
        return member.replica != own.master and (is_going or is_replaced)

    def answered(self, decided: Appointment) -> list[Effect]:
        """Take the register's answer to a proposal."""
        self._is_proposing = False
        if decided.order <= self._register.order:
            return []
        return self.heard(decided)

    def not_answered(self) -> None:
        """Note that a proposal's outcome is unknown."""
        self._is_proposing = False

    def _take(self) -> list[Effect]:
        """Take over the register's appointment, where nothing of this master can change it unseen."""
        machine, register = self._machine, self._register
        own = machine.state.appointment
        if machine.role is not Role.MASTER or register.epoch != own.epoch or register.order <= self._last_base:
            return []
        if own.rule.kind is RuleKind.QUORUM:
            changed = replace(own, rule=register.rule, known=register.known, members=_with(own, register.known))
        else:
            kept, directories = register.members, dict(own.known)
            staying = tuple(each for each in own.members if each in kept or not self._is_leaving(each, own))
            known = tuple(Member(number, directories.get(number, its)) for number, its in register.known)
            changed = replace(own, rule=register.rule, known=known, members=staying)
        machine.wanted = {each for each in machine.wanted if replaces_another(each, changed)}
        if (changed.rule, changed.members, changed.known) == (own.rule, own.members, own.known):
            return []
        return machine.change_set(replace(changed, version=max(own.version, register.version) + 1))


def _same(own: Appointment, register: Appointment) -> bool:
    return all(getattr(own, name) == getattr(register, name) for name in ("rule", "members", "known", "heard"))


def _counted_by(own: Appointment, known: tuple[Member, ...]) -> Appointment:
    """Return the same with these replicas for its rule; itself where they are its own."""
    rule = own.rule if len(known) == len(own.known) else replace(own.rule, replicas=len(known))
    members = _with(own, known) if rule.kind is RuleKind.QUORUM else own.members
    made = replace(own, rule=rule, known=known, members=members)
    return own if made == own else made


def _with(own: Appointment, known: Collection[Member]) -> tuple[Member, ...]:
    """Return members that are still known; a new directory replaces the earlier one."""
    return tuple(each for each in own.members if each in known)
