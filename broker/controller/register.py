"""Register: the state that controllers agree on, as the commands of their log made it.

Invariants:

    an appointment replaces only the one that it was made from
    one appointment for each epoch's election, and epochs of a group only grow
    once an election has begun, the earlier master changes its set no more
    every replica of the decided set has everything that is confirmed

The last one relies on masters: each waits for the union of this set and its own (`broker.replication.set_keeping`).
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from entrepot.broker.controller.commands import (
    Adopt,
    BeginElection,
    ChangeSet,
    Command,
    Decide,
    HearController,
    NameController,
    Reshape,
    WantReplicas,
)
from entrepot.broker.controller.starts import DirectoryStart
from entrepot.domain.replication.control import GroupShape
from entrepot.domain.replication.mastership import Appointment, Promise

MAX_GROUPS: Final = 10_000
"""Most groups of a register."""


class Group(Struct, frozen=True):
    """A broker group. `electing`: the election under way, if its epoch is above that of `appointment`. `reason`: of the
    last election, a sentence. `decided_ms`: time of the last appointment of another master. `wanted`: ids of the
    replicas that an operator has count; empty where the settings decide."""

    shape: GroupShape
    appointment: Appointment
    electing: Promise = Promise()
    reason: str = ""
    decided_ms: int = 0
    wanted: tuple[int, ...] = ()

    @property
    def counting(self) -> frozenset[int]:
        """Ids of the replicas that are to count."""
        return frozenset(self.wanted) or self.shape.counting

    @property
    def fenced(self) -> frozenset[int]:
        """Ids of the replicas that an election asks: those that are to count, and those that do."""
        return self.counting | {member.replica for member in self.appointment.known}

    @property
    def is_electing(self) -> bool:
        return self.electing.epoch > self.appointment.epoch


class _State(Struct):
    groups: dict[str, Group] = field(default_factory=dict)
    addresses: dict[int, str] = field(default_factory=dict)
    starts: dict[int, DirectoryStart] = field(default_factory=dict)


class Register:
    """The register of one controller: everything committed, as far as it is applied here."""

    def __init__(self) -> None:
        self._state = _State()

    @property
    def groups(self) -> dict[str, Group]:
        """Groups by name."""
        return self._state.groups

    @property
    def addresses(self) -> dict[int, str]:
        """host:port of controllers that came later, or have moved, by id."""
        return self._state.addresses

    def old_copy(self, controller: int, start: DirectoryStart) -> str:
        """Return the reason why a controller's directory is not the one last heard of; empty where it is."""
        known = self._state.starts.get(controller)
        return "" if known is None else start.old_copy(controller, known)

    def start_of(self, controller: int) -> DirectoryStart | None:
        """Return the last start of a controller's directory that was heard of."""
        return self._state.starts.get(controller)

    # -- the log -------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return all of it."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, data: bytes) -> None:
        """Take over a snapshot. Raises msgspec.DecodeError."""
        self._state = msgspec.msgpack.decode(data, type=_State)

    def apply(self, command: Command) -> str:
        """Apply a command; return the reason why it changed nothing, empty where it counts."""
        match command:
            case Adopt():
                return self._adopt(command)
            case BeginElection():
                return self._begin(command)
            case Decide():
                return self._decide(command)
            case ChangeSet():
                return self._change_set(command)
            case Reshape(shape):
                return self._reshape(shape)
            case WantReplicas(name, counting):
                return self._want(name, counting)
            case NameController(controller, address):
                if address:
                    self.addresses[controller] = address
                else:
                    self.addresses.pop(controller, None)
            case HearController(controller, start):
                if reason := self.old_copy(controller, start):
                    return reason
                self._state.starts[controller] = start
        return ""

    def _adopt(self, command: Adopt) -> str:
        name = command.shape.name
        known = self.groups.get(name)
        if (known.appointment.order if known else (0, 0)) != command.base:
            return f"group {name} was decided about meanwhile"
        if known is not None and command.appointment.epoch <= known.appointment.epoch:
            return f"group {name} has a later appointment than that"
        if known is None and len(self.groups) >= MAX_GROUPS:
            return f"there are {MAX_GROUPS} groups"
        electing, wanted = (Promise(), ()) if known is None else (known.electing, known.wanted)
        self.groups[name] = Group(command.shape, command.appointment, electing, command.reason, command.at_ms, wanted)
        return ""

    def _begin(self, command: BeginElection) -> str:
        group = self.groups.get(command.group)
        if group is None or group.appointment.order != command.base:
            return f"group {command.group} was decided about meanwhile"
        if command.epoch <= max(group.appointment.epoch, group.electing.epoch):
            return f"epoch {command.epoch} of group {command.group} was given already"
        electing = Promise(command.epoch, command.token)
        self.groups[command.group] = replace(group, electing=electing, reason=command.reason)
        return ""

    def _decide(self, command: Decide) -> str:
        group, made = self.groups.get(command.group), command.appointment
        if group is None or not group.is_electing or group.electing != Promise(made.epoch, command.token):
            return f"another election of group {command.group} has begun"
        self.groups[command.group] = replace(
            group, appointment=made, electing=Promise(), reason=command.reason, decided_ms=command.at_ms
        )
        return ""

    def _change_set(self, command: ChangeSet) -> str:
        group, made = self.groups.get(command.group), command.appointment
        if group is None or group.appointment.order != command.base:
            return f"the set of group {command.group} was changed meanwhile"
        known = group.appointment
        if group.is_electing:
            return f"an election of group {command.group} has begun"
        if (made.epoch, made.master) != (known.epoch, known.master) or not made.supersedes(known):
            return f"replica {made.master} is not the master of group {command.group} that was decided"
        self.groups[command.group] = replace(group, appointment=made)
        return ""

    def _reshape(self, shape: GroupShape) -> str:
        group = self.groups.get(shape.name)
        if group is None:
            return f"there is no group {shape.name}"
        self.groups[shape.name] = replace(group, shape=shape)
        return ""

    def _want(self, name: str, counting: tuple[int, ...]) -> str:
        group = self.groups.get(name)
        if group is None:
            return f"there is no group {name}"
        self.groups[name] = replace(group, wanted=counting)
        return ""
