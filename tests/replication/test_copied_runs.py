"""Runs that are copied from another replica, step by step: what the machine takes, and what it does not."""

from __future__ import annotations

from entrepot.broker.replication.effects import Confirm, Sync, Write
from entrepot.broker.replication.files.runs import Run
from entrepot.broker.replication.replica import Replica
from entrepot.domain.replication.epochs import BEGINNING
from entrepot.domain.replication.greeting import Welcome
from tests.replication.test_replica import TWO, appointment, replica

COPIED = [Run(4, b"abcd", 0, 8), Run(8, b"ef", 0, 8)]
NAME = BEGINNING.name


def welcomed(start: int = 4) -> Replica:
    """A slave whose log ends at 4, that its master has taken, and that has left it again to copy."""
    machine = replica(TWO, end=4)
    machine.appoint(appointment())
    machine.greeting()
    machine.welcomed(Welcome(1, 1, start, start))
    machine.lost()
    return machine


def test_they_are_written_and_confirmed_as_far_as_they_were_there() -> None:
    machine = welcomed()
    assert machine.copied(COPIED, NAME) == [Write(4, b"abcd"), Write(8, b"ef"), Sync(machine.generation)]
    assert machine.synced_to(10, machine.generation) == [Confirm(8)]
    assert machine.copied([Run(10, b"g", 0, 11)], NAME)[0] == Write(10, b"g")


def test_only_what_comes_next_is_taken() -> None:
    assert welcomed().copied([Run(5, b"bcd", 0, 8)], NAME) == []
    assert welcomed().copied([Run(0, b"1234abcd", 0, 8)], NAME) == []


def test_nothing_of_another_history_is_taken() -> None:
    assert welcomed().copied(COPIED, (1, 1)) == []


def test_nothing_is_taken_before_a_master_of_the_epoch_said_where_the_logs_part() -> None:
    machine = replica(TWO, end=4)
    machine.appoint(appointment())
    assert machine.copied(COPIED, NAME) == []
    machine = welcomed()
    machine.appoint(appointment(epoch=2))
    assert machine.copied(COPIED, NAME) == [], "another master, another history perhaps"


def test_nothing_is_taken_once_the_master_was_told_the_end() -> None:
    machine = welcomed()
    machine.greeting()
    assert machine.copied(COPIED, NAME) == []
    machine.welcomed(Welcome(1, 1, 4, 4))
    assert machine.copied(COPIED, NAME) == []
