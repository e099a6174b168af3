"""Greeting and welcome: the exchange of a slave and its master about their logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from entrepot.domain.replication.epochs import EpochStart
from entrepot.domain.replication.mastership import Appointment, Member, ReplicaState, RunHistory


class Greeting(NamedTuple):
    """The first word of a slave to its master."""

    group: str
    member: Member
    run: int
    promised: int
    end: int
    """End of the synced log."""
    confirmed: int
    starts: tuple[EpochStart, ...]
    tokens: tuple[str, ...] = ()
    """Tokens of its last runs."""
    heard: tuple[RunHistory, ...] = ()
    """Known starts of other directories: they show a master that it is an old copy."""

    @property
    def history(self) -> RunHistory:
        return RunHistory(self.member, self.run, self.tokens)


def greeting_of(state: ReplicaState, end: int, confirmed: int, starts: Iterable[EpochStart]) -> Greeting:
    """Return the greeting of a replica whose log is synced up to `end`."""
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
    """A master's acceptance of a slave: the stream begins at `start`, up to which both logs are equal."""

    epoch: int
    run: int
    start: int
    confirmed: int
    is_unclean: bool = False
    """True if the history after `start` has an unclean start: confirmed bytes of the slave may be cut."""
    starts: tuple[EpochStart, ...] = ()
    """History before `start`, for a new slave, which would miss starts whose records are gone."""
    appointment: Appointment = Appointment()
    """The master's appointment: a slave that acknowledges knows the master's start."""
