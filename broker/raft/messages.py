"""Messages between members. `term` is the sender's, except in PreVote, which asks for a term that nobody has yet.

A message may be lost, doubled, late or overtaken. `read_round` returns in answers: it shows a leader that a member
followed it after a read was asked (dissertation, section 6.4).
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from entrepot.broker.raft.entry import Entry
from entrepot.broker.raft.membership import Configuration


class PreVote(Struct, frozen=True):
    """Question before a campaign (dissertation, section 9.6): would the receiver vote for the sender in `term`?"""

    term: int
    last_index: int
    last_term: int


class PreVoteAnswer(Struct, frozen=True):
    """Answer to PreVote. `asked`: term of the question."""

    term: int
    asked: int
    is_granted: bool


class Vote(Struct, frozen=True):
    """Request of a candidate (dissertation, section 3.4)."""

    term: int
    last_index: int
    last_term: int


class VoteAnswer(Struct, frozen=True):
    """Answer to Vote, sent once the vote is synced."""

    term: int
    is_granted: bool


class Append(Struct, frozen=True):
    """Entries after (`previous`, `previous_term`); without entries a heartbeat (dissertation, section 3.5)."""

    term: int
    previous: int
    previous_term: int
    entries: tuple[Entry, ...]
    commit: int
    read_round: int


class AppendAnswer(Struct, frozen=True):
    """Answer to Append. `index`: on success, the last entry that was checked and is synced; else the entry to go on
    with. `previous`: of the question."""

    term: int
    is_success: bool
    index: int
    previous: int
    read_round: int


class SnapshotChunk(Struct, frozen=True):
    """Part of a snapshot at `offset` of `size` bytes with the checksum `crc`."""

    term: int
    index: int
    last_term: int
    configuration: Configuration
    size: int
    crc: int
    offset: int
    data: bytes
    read_round: int


class SnapshotAnswer(Struct, frozen=True):
    """Answer to SnapshotChunk. `offset`: bytes of the snapshot up to `index` that the follower has."""

    term: int
    index: int
    offset: int
    read_round: int


Message: TypeAlias = (
    PreVote | PreVoteAnswer | Vote | VoteAnswer | Append | AppendAnswer | SnapshotChunk | SnapshotAnswer
)
