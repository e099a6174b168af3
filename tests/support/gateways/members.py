"""Members of a cluster whose incarnations are names that a test can read."""

from __future__ import annotations

from entrepot.domain.clock import Clock
from entrepot.domain.ports import Store
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.member.member import Member


class NamedIdentity(Identity):
    """An identity whose incarnations are `name`, `name-again`, `name-again-again`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._renewals = 0

    @property
    def incarnation(self) -> str:
        return self.name + "-again" * self._renewals

    def renew(self) -> None:
        self._renewals += 1
        before = self.name + "-again" * (self._renewals - 1)
        for told in self.on_renewed:
            told(before)


def member_named(store: Store, clock: Clock, name: str = "g", *, is_alone: bool = True) -> Member:
    """Return a member that has not started."""
    return Member(store, clock, NamedIdentity(name), is_alone=is_alone)
