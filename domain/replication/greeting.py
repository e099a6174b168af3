"""Greeting and welcome: a slave and its master tell each other of their logs."""

from __future__ import annotations

from typing import NamedTuple

from domain.replication.epochs import EpochStart
from domain.replication.mastership import Member


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
