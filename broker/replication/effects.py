"""Effects that a replica's machine asks for: each is done, and durable where it says so, before the next."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from domain.replication.epochs import EpochStart
from domain.replication.greeting import Welcome
from domain.replication.mastership import Appointment, ReplicaState


class Persist(NamedTuple):
    """Keep the state, durably."""

    state: ReplicaState


class Cut(NamedTuple):
    """Remove what the log has from an offset on, durably.  `keeps`: what this replica wrote as master itself goes to
    `diverged/` first.  `is_unclean`: it was confirmed; what is derived from the log is made anew."""

    to: int
    keeps: bool
    is_unclean: bool


class BeginAt(NamedTuple):
    """Have an empty log that begins at an offset, whatever there was."""

    offset: int


class Write(NamedTuple):
    """Write whole records at the end of the log."""

    offset: int
    data: bytes


class Sync(NamedTuple):
    """Ask for what was written to be made durable; `Replica.synced_to` is told, with the generation."""

    generation: int


class AppendEpoch(NamedTuple):
    """Apply all of the log to what is derived from it, then append an EPOCH record; `Replica.epoch_written` is told.
    `start.start` is not known yet."""

    start: EpochStart


class Confirm(NamedTuple):
    """Everything before the offset is confirmed: it may be applied, told and served."""

    offset: int


class Open(NamedTuple):
    """Let clients in: this is the master."""


class Close(NamedTuple):
    """It is master no more: fail all that waits for a confirmation, say goodbye, open the store anew as a slave."""

    reason: str


class Follow(NamedTuple):
    """Connect to a master, and greet it."""

    master: int


class Unfollow(NamedTuple):
    """End the connection to the master; what still comes by it does not count."""


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
    """Tell the master up to where the log is synced."""

    end: int


class Announce(NamedTuple):
    """Tell the other replicas of a set that has grown."""

    appointment: Appointment


class Halt(NamedTuple):
    """Stop loudly: going on would lose what was confirmed."""

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
