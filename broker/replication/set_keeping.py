"""SetKeeping: a master has the controllers' register follow its set.

The master lets nobody go by itself: until the register has the smaller set, it waits for the union of both.  To take
one in needs nobody: whoever knows only the earlier set is safe with it (ADR 47).

Invariants:

    the register's set is part of the master's own
    a smaller set counts here only where the register has it, and no earlier proposal can take its place any more

Each proposal names the version that it is made from, and the register takes it only in place of that one.  So one whose
answer was lost is void as soon as the register is seen with a later version.  A proposal of a smaller set has a version
of its own, below all later ones of this master.  Pure; the caller knows who is gone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from broker.replication.effects import Effect
from broker.replication.following_replica import Role
from broker.replication.replica import Replica, replaces_another
from domain.replication.control import SetChange
from domain.replication.election import admitted
from domain.replication.mastership import Appointment, Member
from domain.replication.rule import RuleKind


class SetKeeping:
    """`gone`: ids of replicas that are to leave the set."""

    def __init__(self, machine: Replica) -> None:
        self._machine = machine
        self._register = Appointment()
        self._last_base = (0, 0)
        self._is_proposing = False
        self.gone: frozenset[int] = frozenset()

    def heard(self, decided: Appointment) -> list[Effect]:
        """An appointment that the register has, or had."""
        effects = self._machine.appoint(decided)
        if decided.order > self._register.order:
            if decided.epoch > self._register.epoch:  # an earlier run of this master may have proposed something
                self._last_base = decided.order
            self._register = decided
            effects += self._take()
        return effects

    def proposal(self) -> tuple[list[Effect], SetChange | None]:
        """The next proposal, None where there is none; what it needs to be done first."""
        machine, register = self._machine, self._register
        own = machine.state.appointment
        if self._is_proposing or machine.role is not Role.MASTER or register.epoch != own.epoch:
            return [], None
        wanted = self._wanted(own)
        effects: list[Effect] = []
        if wanted != own:
            effects, version = machine.reserve_version()
            wanted = replace(wanted, version=version)
        elif wanted.order <= register.order or _same(wanted, register):
            return [], None
        self._is_proposing, self._last_base = True, register.order
        return effects, SetChange(wanted, register.order)

    def _wanted(self, own: Appointment) -> Appointment:
        if own.rule.kind is RuleKind.QUORUM:
            new = self._machine.wanted - set(own.known)
            return replace(own, known=admitted(own.known, new)) if new else own
        staying = tuple(member for member in own.members if not self._is_leaving(member, own.master))
        return replace(own, members=staying) if staying != own.members else own

    def _is_leaving(self, member: Member, master: int) -> bool:
        """It is gone, or its replica has come back with another directory."""
        is_replaced = any(w.replica == member.replica and w != member for w in self._machine.wanted)
        return member.replica != master and (member.replica in self.gone or is_replaced)

    def answered(self, decided: Appointment) -> list[Effect]:
        """The register's answer to a proposal."""
        self._is_proposing = False
        if decided.order <= self._register.order:
            return []
        return self.heard(decided)

    def not_answered(self) -> None:
        """The outcome of a proposal is not known."""
        self._is_proposing = False

    def _take(self) -> list[Effect]:
        """Have what the register has, where nothing of this master can change it behind its back."""
        machine, register = self._machine, self._register
        own = machine.state.appointment
        if machine.role is not Role.MASTER or register.epoch != own.epoch or register.order <= self._last_base:
            return []
        if own.rule.kind is RuleKind.QUORUM:
            changed = replace(own, known=register.known, members=_with(own, register.known))
        else:
            kept = register.members
            staying = tuple(each for each in own.members if each in kept or not self._is_leaving(each, own.master))
            changed = replace(own, members=staying)
        machine.wanted = {each for each in machine.wanted if replaces_another(each, changed)}
        if (changed.members, changed.known) == (own.members, own.known):
            return []
        return machine.change_set(replace(changed, version=max(own.version, register.version) + 1))


def _same(own: Appointment, register: Appointment) -> bool:
    return (own.members, own.known, own.heard) == (register.members, register.known, register.heard)


def _with(own: Appointment, known: Collection[Member]) -> tuple[Member, ...]:
    """Members that are known still; a new directory takes the place of the earlier one."""
    return tuple(each for each in own.members if each in known)
