"""A master and its set: the register's is part of its own, whatever answers are lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entrepot.broker.replication.effects import Effect, WelcomeSlave
from entrepot.broker.replication.replica import Replica
from entrepot.broker.replication.set_keeping import SetKeeping
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.replication.control import SetChange
from entrepot.domain.replication.greeting import Greeting
from entrepot.domain.replication.mastership import Appointment, Member
from tests.replication.test_replica import ONE, THREE, TWO, greeting, master


class Group:
    """A master of two replicas, the other one in its set, and the register."""

    def __init__(self) -> None:
        self.machine: Replica = master()
        self.machine.is_controlled = True
        self.keeping = SetKeeping(self.machine)
        self.machine.synced_to(1)
        self.follow(greeting(0), 7)
        self.register = self.machine.state.appointment
        self.keeping.heard(self.register)

    def follow(self, told: Greeting, stream: int) -> None:
        self.machine.registered = None
        *_, welcome = self.machine.greeted(told, stream)
        assert isinstance(welcome, WelcomeSlave)
        self.machine.sending(2, stream, self.machine.end)
        self.machine.acknowledged(2, stream, self.machine.end)

    def proposed(self) -> SetChange:
        _, change = self.keeping.proposal()
        assert change is not None
        return change

    def commit(self, change: SetChange) -> Appointment:
        """What the register does."""
        if change.base == self.register.order:
            self.register = change.appointment
        return self.register

    @property
    def own(self) -> Appointment:
        return self.machine.state.appointment


@pytest.fixture
def group() -> Group:
    found = Group()
    assert found.machine.is_open
    assert found.keeping.proposal()[1] is None, "all is as the register has it"
    return found


def test_a_slave_that_is_gone_is_waited_for_until_the_register_lets_it_go(group: Group) -> None:
    machine, keeping = group.machine, group.keeping
    machine.slave_gone(2, 7)
    keeping.gone = frozenset({2})
    machine.wrote(5)
    machine.synced_to(5)
    change = group.proposed()
    assert change.appointment.members == (ONE,)
    assert change.base == group.register.order
    assert group.own.members == (ONE, TWO)
    assert machine.confirmed < 5, "it waits for the union of both"
    assert keeping.proposal() == ([], None), "one at a time"
    keeping.answered(group.commit(change))
    assert set(group.own.members) == {ONE}
    assert machine.confirmed == 5


def test_a_proposal_whose_answer_is_lost_lets_nobody_go_by_itself(group: Group) -> None:
    """It may be committed, or not: another one is made from what is known, and only one of both can count."""
    machine, keeping = group.machine, group.keeping
    machine.slave_gone(2, 7)
    keeping.gone = frozenset({2})
    first = group.proposed()
    group.commit(first)
    keeping.not_answered()
    assert group.own.members == (ONE, TWO)
    second = group.proposed()
    assert second.base == first.base
    assert second.appointment.version > first.appointment.version, "each has a version of its own"
    assert group.commit(second) == first.appointment, "the register takes it no more"
    keeping.answered(group.register)
    assert keeping.known == first.appointment.order


def test_a_slave_that_is_back_is_waited_for_again_before_anything_is_proposed(group: Group) -> None:
    """Its going may be committed already: the larger set is safe with either."""
    machine, keeping = group.machine, group.keeping
    machine.slave_gone(2, 7)
    keeping.gone = frozenset({2})
    lost = group.proposed()
    keeping.not_answered()
    keeping.gone = frozenset()
    group.follow(greeting(machine.end, tuple(machine.starts), run=2), 8)
    assert TWO in group.own.members
    group.commit(lost)  # it arrives late
    keeping.heard(group.register)
    assert TWO in group.own.members
    change = group.proposed()
    assert TWO in change.appointment.members
    assert group.commit(change).members == group.own.members


def test_what_the_register_had_before_changes_nothing(group: Group) -> None:
    before = group.own
    effects: list[Effect] = group.keeping.heard(replace(group.register, version=0, members=(ONE,)))
    assert effects == []
    assert group.own == before


def test_a_replica_that_is_no_master_proposes_nothing(group: Group) -> None:
    group.keeping.gone = frozenset({2})
    group.machine.fence(9, "t")
    assert group.keeping.proposal() == ([], None)


def test_a_directory_that_waits_does_not_bring_a_dismissed_replica_back(group: Group) -> None:
    """It was to take the place of an earlier one of replica 3, which was made an observer meanwhile."""
    machine = group.machine
    quorum = replace(group.own, rule=Rule(RuleKind.QUORUM, 2, 2))
    machine.state = replace(machine.state, appointment=quorum)
    group.keeping = SetKeeping(machine)
    group.keeping.heard(quorum)
    machine.wanted.add(THREE)
    assert group.keeping.proposal()[1] is None
    machine.wanted.add(replace_directory(TWO))
    assert replace_directory(TWO) in group.proposed().appointment.known, "one that counts is admitted"


def replace_directory(member: Member) -> Member:
    return member._replace(incarnation="f" * 32)
