"""Effects that a replica's machine asks for: each is done, and durable if stated, before the next."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from entrepot.domain.replication.epochs import EpochStart
from entrepot.domain.replication.greeting import Welcome
from entrepot.domain.replication.mastership import Appointment, ReplicaState


class Persist(NamedTuple):
    """Keep the state, durably."""

    state: ReplicaState


class Cut(NamedTuple):
    """Remove the log from an offset on, durably. `keeps`: records that this replica wrote as master itself go to
    `diverged/` first. `is_unclean`: it was confirmed; everything derived from the log is made anew."""

    to: int
    keeps: bool
    is_unclean: bool


class BeginAt(NamedTuple):
    """Begin an empty log at an offset, whatever there was."""

    offset: int


class Write(NamedTuple):
    """Write whole records at the end of the log."""

    offset: int
    data: bytes


class Sync(NamedTuple):
    """Ask for the written records to be made durable; `Replica.synced_to` is told, with the generation."""

    generation: int


class AppendEpoch(NamedTuple):
    """Derive everything from all of the log, then append an EPOCH record; `Replica.epoch_written` is told.
    `start.start` is not known yet."""

    start: EpochStart


class Confirm(NamedTuple):
    """Confirm everything before the offset: it may be applied, told and served."""

    offset: int


class Open(NamedTuple):
    """Let clients in: this is the master."""


class Close(NamedTuple):
    """End the mastership: fail all waiting confirmations, say goodbye, open the store anew as a slave."""

    reason: str


class Follow(NamedTuple):
    """Connect to a master, and greet it."""

    master: int


class Unfollow(NamedTuple):
    """End the connection to the master; records still under way do not count."""


class WelcomeSlave(NamedTuple):
    """Answer a greeting, and send runs from there on."""

    replica: int
    stream: int
    welcome: Welcome


class RefuseSlave(NamedTuple):
    """Answer a greeting with a refusal, or end a stream."""

    replica: int
    stream: int
    reason: str


class Acknowledge(NamedTuple):
    """Tell the master the synced end of the log."""

    end: int


class Announce(NamedTuple):
    """Tell the other replicas of a set that has grown."""

    appointment: Appointment


class Halt(NamedTuple):
    """Stop loudly: going on would lose confirmed records."""

    reason: str


Effect: TypeAlias = (
    Persist
    | Cut
    | BeginAt
    | Write
    | Sync
    | AppendEpoch
    | Confirm
    | Open
    | Close
    | Follow
    | Unfollow
    | WelcomeSlave
    | RefuseSlave
    | Acknowledge
    | Announce
    | Halt
)
