"""Greeting and welcome: a slave and its master tell each other of their logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from domain.replication.epochs import EpochStart
from domain.replication.mastership import Appointment, Member, ReplicaState, RunHistory


class Greeting(NamedTuple):
    """The first word of a slave to its master."""

    group: str
    member: Member
    run: int
    promised: int
    end: int
    """Synced."""
    confirmed: int
    starts: tuple[EpochStart, ...]
    tokens: tuple[str, ...] = ()
    """Of its last runs."""
    heard: tuple[RunHistory, ...] = ()
    """The starts of others that it knows of: a master that is an old copy learns it."""

    @property
    def history(self) -> RunHistory:
        return RunHistory(self.member, self.run, self.tokens)


def greeting_of(state: ReplicaState, end: int, confirmed: int, starts: Iterable[EpochStart]) -> Greeting:
    """The greeting of a replica whose log is synced up to `end`."""
    return Greeting(
        state.group,
        state.member,
        state.run,
        state.promise.epoch,
        end,
        confirmed,
        tuple(starts),
        state.tokens,
        state.appointment.heard,
    )


class Welcome(NamedTuple):
    """The master takes a slave: its stream begins at an offset, up to which both logs are the same."""

    epoch: int
    run: int
    start: int
    confirmed: int
    is_unclean: bool = False
    """The history behind `start` has an unclean start: what the slave has confirmed may be cut."""
    starts: tuple[EpochStart, ...] = ()
    """Of the history before `start`: a slave that has nothing yet would not find those whose records are gone."""
    appointment: Appointment = Appointment()
    """As the master knows it: a slave that acknowledges has heard of the master's start."""
