"""Agreement: the leading controller's pending commands, orders to replicas, and replies to requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from msgspec import Struct

from entrepot.broker.controller.clocks import MemberClocks
from entrepot.broker.controller.commands import Command
from entrepot.broker.controller.register import Register
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.replication.control import Order
from entrepot.domain.replication.mastership import Appointment


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """Times in seconds. `lease`: silence after which a master is replaced. `fence`: longest wait for promises.
    `catch_up`: longest pause of a planned move. `open`: longest time until a new master opens. `again`: between two
    elections of one group, doubled up to `most_again` while none succeeds."""

    lease: float = 3.0
    fence: float = 1.0
    catch_up: float = 5.0
    open: float = 15.0
    again: float = 0.5
    most_again: float = 10.0
    tick: float = 0.1


class Propose(Struct, frozen=True):
    """Commit a command; `applied` or `not_applied` answers with the token."""

    token: int
    command: Command


class Tell(Struct, frozen=True):
    """Send an order to a replica; it may get lost."""

    group: str
    replica: int
    order: Order


class Reply(Struct, frozen=True):
    """Answer a request, with a value or an error."""

    request: int
    result: Any = None
    error: EntrepotError | None = None


Effect = Propose | Tell | Reply
NOT_AGREED = "the controllers have not agreed on it in time"


class Agreement:
    """The effects of an event. `cluster`: id of the controllers as a group. `wall_ms`: time of day, shown to people.
    `now`: time of the event under way, in seconds of any steady clock. `clocks`: those of all members."""

    def __init__(
        self,
        register: Register,
        cluster: str,
        chance: Random,
        wall_ms: Callable[[], int],
        options: ControllerOptions,
        clocks: MemberClocks,
    ) -> None:
        self.register, self.cluster, self.options = register, cluster, options
        self.chance, self.wall_ms, self.clocks = chance, wall_ms, clocks
        self.now = 0.0
        self._numbers = 0
        self._proposed: dict[int, Callable[[str | None], None]] = {}
        self._effects: list[Effect] = []

    def number(self) -> int:
        """Return a number that nothing else has here."""
        self._numbers += 1
        return self._numbers

    def propose(self, command: Command, then: Callable[[str | None], None]) -> None:
        """Propose a command. `then` gets the reason why it changed nothing: empty if it counts, None if unknown."""
        token = self.number()
        self._proposed[token] = then
        self._effects.append(Propose(token, command))

    def ended(self, token: int, reason: str | None) -> None:
        """End a proposal."""
        then = self._proposed.pop(token, None)
        if then is not None:
            then(reason)

    def forget(self) -> None:
        """Forget all proposals: another leads and decides their outcome."""
        self._proposed.clear()

    def tell(self, group: str, replica: int, order: Order) -> None:
        self._effects.append(Tell(group, replica, order))

    def reply(self, request: int, result: Any) -> None:
        self._effects.append(Reply(request, result))

    def refuse(self, request: int, code: Code, message: str) -> None:
        self._effects.append(Reply(request, error=EntrepotError(code, message)))

    def done(self) -> list[Effect]:
        """Return the effects of the event."""
        effects, self._effects = self._effects, []
        return effects

    def decided(self, name: str) -> Appointment | None:
        """Return the last appointment of a group, or None before its first one."""
        group = self.register.groups.get(name)
        return None if group is None or not group.appointment.known else group.appointment
