"""Events for a Raft machine, and the effects that it asks for, in their order."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from entrepot.broker.raft.entry import Entry
from entrepot.broker.raft.membership import Change
from entrepot.broker.raft.messages import Message
from entrepot.broker.raft.snapshot import Snapshot


class Role(Enum):
    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


# -- events ------------------------------------------------------------------------------------------------------------


class Tick(Struct, frozen=True):
    """Time has passed; comes at least once in `Options.heartbeat_ms`."""


class Receive(Struct, frozen=True):
    """A message has come."""

    source: int
    message: Message


class Synced(Struct, frozen=True):
    """Every write up to this number is durable."""

    number: int


class Propose(Struct, frozen=True):
    """Commit a command. `token` names the answer."""

    token: int
    command: bytes


class ChangeMembers(Struct, frozen=True):
    """Change the members. The answer comes with the first step; the leader at the time takes the others."""

    token: int
    change: Change


class Read(Struct, frozen=True):
    """Ask for the index up to which the state must be applied for a linearizable read."""

    token: int


class Compact(Struct, frozen=True):
    """Give the state machine's bytes as of an applied index: the log up to there may go."""

    index: int
    data: bytes


Event: TypeAlias = Tick | Receive | Synced | Propose | ChangeMembers | Read | Compact


# -- effects -----------------------------------------------------------------------------------------------------------


class HardState(Struct, frozen=True):
    """Term and vote, which a member never forgets."""

    term: int
    vote: int


class Write(Struct, frozen=True):
    """Make durable, in order; `Synced` answers. An entry replaces the one at its index and all later ones."""

    number: int
    state: HardState | None
    snapshot: Snapshot | None
    entries: tuple[Entry, ...]


class Send(Struct, frozen=True):
    """Send a message now. It may get lost."""

    target: int
    message: Message


class Restore(Struct, frozen=True):
    """Put the state of a snapshot in place of the state machine's."""

    snapshot: Snapshot


class Apply(Struct, frozen=True):
    """Apply committed entries, of which commands concern the state machine."""

    entries: tuple[Entry, ...]


class Done(Struct, frozen=True):
    """Answer to Propose and ChangeMembers: committed, and applied by the effect before."""

    token: int
    index: int


class ReadReady(Struct, frozen=True):
    """Answer to Read: the state, applied up to `index`, has everything committed before the question."""

    token: int
    index: int


class Refused(Struct, frozen=True):
    """Answer to a question that changed nothing. `leader`: the member to ask in its place, or NOBODY."""

    token: int
    reason: str
    leader: int


class Unknown(Struct, frozen=True):
    """Answer to Propose and ChangeMembers by a leader that is one no more: the outcome is unknown."""

    token: int


class RoleChanged(Struct, frozen=True):
    """Another role, term or leader than before the step."""

    role: Role
    term: int
    leader: int


class Halt(Struct, frozen=True):
    """Stop loudly: going on would lose committed entries. The machine does nothing more."""

    reason: str


Effect: TypeAlias = Write | Send | Restore | Apply | Done | ReadReady | Refused | Unknown | RoleChanged | Halt
