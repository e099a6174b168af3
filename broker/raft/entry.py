"""Entries of the Raft log."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct


class EntryKind(IntEnum):
    NO_OP = 0
    COMMAND = 1
    CONFIGURATION = 2


class Entry(Struct, frozen=True):
    """An entry. `index` counts from 1. `term`: of its leader. `data`: a command, or an encoded configuration."""

    index: int
    term: int
    kind: EntryKind
    data: bytes = b""
