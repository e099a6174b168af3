"""TopicShares: a broker's shares of all topics, and what has changed of them since a version.

A broker keeps its own, a name server those of every broker, a gateway those that name servers told. Each tells the next
what changed since the version that it has, so a change costs its own size however many topics there are. Changes are
remembered up to a limit; whoever is further behind gets everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from entrepot.domain.route import BrokerInfo, BrokerRoute, Registration, TopicRoute

MAX_REMEMBERED: Final = 10_000
"""Most changes that are remembered for those behind; a change is one topic's."""


class TopicShares:
    """The shares by topic, all in memory. Versions are the owner's; they grow."""

    def __init__(self, shares: Iterable[TopicRoute] = ()) -> None:
        self.topics: dict[str, TopicRoute] = {share.name: share for share in shares}
        self._changes: deque[tuple[int, str]] = deque()
        self._remembered_since = 0

    def change(self, version: int, shares: Iterable[TopicRoute], gone: Iterable[str] = ()) -> list[str]:
        """Put some shares and remove others at a version; return the topics that differ now."""
        differing: list[str] = []
        for share in shares:
            if self.topics.get(share.name) != share:
                self.topics[share.name] = share
                differing.append(share.name)
        differing += [name for name in gone if self.topics.pop(name, None) is not None]
        for name in differing:
            self._remember(version, name)
        return differing

    def replace(self, version: int, shares: Sequence[TopicRoute]) -> list[str]:
        """Take these shares as all there are at a version; return the topics that differ now."""
        return self.change(version, shares, self.topics.keys() - {share.name for share in shares})

    def _remember(self, version: int, name: str) -> None:
        self._changes.append((version, name))
        if len(self._changes) > MAX_REMEMBERED:
            self._remembered_since = self._changes.popleft()[0]

    def since(self, version: int) -> tuple[tuple[TopicRoute, ...], tuple[str, ...]] | None:
        """Return the shares that changed after a version, and the topics gone since; None if that is forgotten."""
        if version < self._remembered_since:
            return None
        names: dict[str, None] = {}
        for at, name in reversed(self._changes):
            if at <= version:
                break
            names[name] = None
        changed = tuple(self.topics[name] for name in names if name in self.topics)
        return changed, tuple(name for name in names if name not in self.topics)


@dataclass(frozen=True, slots=True)
class ReportedBroker:
    """A broker as reported: `version` is that of its registration, the rest as in `BrokerRoute`. A later report of the
    same process goes on with the same `shares`."""

    broker: BrokerInfo
    version: int
    shares: TopicShares
    is_alive: bool = True
    has_left: bool = False

    @classmethod
    def of(cls, route: BrokerRoute) -> ReportedBroker:
        """Return a broker as a whole registration says."""
        registration = route.registration
        shares = TopicShares(registration.topics)
        return cls(registration.broker, registration.version, shares, route.is_alive, route.has_left)

    @property
    def age(self) -> tuple[int, int]:
        """Epoch and version: the greater is the later report."""
        return self.broker.epoch, self.version

    def says_as(self, other: ReportedBroker | None) -> bool:
        """True if another report says the same, though another may have told it."""
        return other is not None and self._words() == other._words()

    def _words(self) -> tuple[BrokerInfo, int, bool, bool]:
        return self.broker, self.version, self.is_alive, self.has_left

    def route(self, since: int | None = None) -> BrokerRoute:
        """Return it for the wire, with the shares that changed after a version of the owner, or with all."""
        changes = None if since is None else self.shares.since(since)
        if changes is None:
            registration = Registration(self.broker, self.version, tuple(self.shares.topics.values()))
        else:
            registration = Registration(self.broker, self.version, changes[0], changes[1], is_whole=False)
        return BrokerRoute(registration, self.is_alive, self.has_left)
