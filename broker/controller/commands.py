"""Commands of the controllers' log, and their bytes."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from entrepot.broker.controller.starts import DirectoryStart
from entrepot.domain.replication.control import GroupShape
from entrepot.domain.replication.mastership import Appointment


class Adopt(Struct, frozen=True, tag=True):
    """Take a group in, or one that went on without these controllers: all its replicas were heard. `base`: order of the
    appointment that is decided here, (0, 0) of a new group."""

    shape: GroupShape
    appointment: Appointment
    base: tuple[int, int]
    reason: str
    at_ms: int


class BeginElection(Struct, frozen=True, tag=True):
    """End the decided mastership: from now on its master changes no set."""

    group: str
    epoch: int
    token: str
    base: tuple[int, int]
    reason: str
    at_ms: int


class Decide(Struct, frozen=True, tag=True):
    """Make an appointment, of the election with this token."""

    group: str
    token: str
    appointment: Appointment
    reason: str
    at_ms: int


class ChangeSet(Struct, frozen=True, tag=True):
    """Replace the appointment with the order `base` by a master's change of its set."""

    group: str
    appointment: Appointment
    base: tuple[int, int]


class Reshape(Struct, frozen=True, tag=True):
    """Take the settings of a group's master: addresses, observers, the number of its replicas."""

    shape: GroupShape


class WantReplicas(Struct, frozen=True, tag=True):
    """Note an operator's choice of replicas that count; the master changes the set (`ChangeSet`)."""

    group: str
    counting: tuple[int, ...]


class NameController(Struct, frozen=True, tag=True):
    """Remember the address of a controller; an empty one is forgotten."""

    controller: int
    address: str


class HearController(Struct, frozen=True, tag=True):
    """Remember the last start of a controller's directory: an old copy of it has no say."""

    controller: int
    start: DirectoryStart


Command: TypeAlias = (
    Adopt | BeginElection | Decide | ChangeSet | Reshape | WantReplicas | NameController | HearController
)

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Command)


def encode_command(command: Command) -> bytes:
    """Return the bytes of an entry of the log."""
    return _encoder.encode(command)


def decode_command(data: bytes) -> Command:
    """Reverse `encode_command`. Raises msgspec.DecodeError."""
    found: Command = _decoder.decode(data)
    return found
