"""A network on the simulation's clock: delays, lost and doubled messages, one-way cuts, and connections that break.

A message by itself may be lost, doubled and overtaken.  A connection keeps the order; where its way is cut it waits,
and breaks when that lasts too long.  An acknowledgement may outlive its connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from tests.simulation.clock import Clock

PATIENCE: Final = 6
AGAIN: Final = 15.0


class Node(Protocol):
    """Whoever is reached by the network: `slot` is its place there, which two of one replica id do not share."""

    slot: int

    def take(self, act: Callable[..., Any], *arguments: Any) -> None: ...


Way = tuple[int, int]
"""From a slot to a slot."""


def both_ways(one: int, others: Iterable[int]) -> set[Way]:
    """Those between a slot and others."""
    return {way for other in others for way in ((one, other), (other, one))}


class Network:
    """`cuts`: ways on which nothing comes through.  `mean`: delay.  `loss`, `doubles`: chances."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.chance = clock, clock.chance("network")
        self.cuts: set[Way] = set()
        self.mean = self.chance.choice((0.5, 2.0, 8.0))
        self.loss = self.doubles = 0.0

    def delay(self) -> float:
        """Mostly short, now and then long."""
        slow = 15.0 if self.chance.random() < 0.05 else 1.0
        return slow * self.chance.expovariate(1.0 / self.mean)

    def send(self, source: Node, target: Node, act: Callable[..., Any], *arguments: Any) -> None:
        """A message by itself."""
        self.send_once(source, target, act, *arguments)
        if self.chance.random() < self.doubles:
            self.send_once(source, target, act, *arguments)

    def send_once(self, source: Node, target: Node, act: Callable[..., Any], *arguments: Any) -> None:
        """A message that is not doubled: a client's."""
        if (source.slot, target.slot) not in self.cuts and self.chance.random() >= self.loss:
            self.clock.after(self.delay(), target.take, act, *arguments)

    def cut(self, ways: set[Way], duration: float) -> bool:
        """Let nothing through for a while; False where nothing was to be cut.  A slot always reaches itself."""
        ways = {way for way in ways if way[0] != way[1]}
        self.cuts |= ways
        self.clock.after(duration, self.cuts.difference_update, ways)
        return bool(ways)

    def heal(self) -> None:
        self.cuts.clear()
        self.loss = self.doubles = 0.0
        self.mean = min(self.mean, 2.0)


class Lane:
    """One way of a connection.  `act` is done at its end for each item."""

    def __init__(self, connection: Connection, source: Node, target: Node, act: Callable[..., Any]) -> None:
        self._connection, self._source, self._target, self._act = connection, source, target, act
        self.items: deque[Any] = deque()
        self._last = 0.0

    def send(self, item: Any) -> None:
        network = self._connection.network
        self.items.append(item)
        self._last = max(self._last, network.clock.now + network.delay())
        network.clock.after(self._last - network.clock.now, self._arrive, 0)

    def _arrive(self, tries: int) -> None:
        connection, network = self._connection, self._connection.network
        if connection.is_broken:
            return
        if (self._source.slot, self._target.slot) in network.cuts:
            if tries >= PATIENCE:
                connection.end()
            else:
                network.clock.after(AGAIN, self._arrive, tries + 1)
            return
        self._target.take(self._act, connection, self.items.popleft())


class Connection:
    """Of a slave to its master.  `sent`: up to where the master has sent, None before the welcome.  `told`: confirmed,
    as it was sent last.  `slave_heard`, `master_heard`: time of the last item there.  `end` is called where it
    breaks."""

    def __init__(self, network: Network, slave: Any, master: Any, number: int, world: Any) -> None:
        self.network, self.slave, self.master, self.number = network, slave, master, number
        self.to_master = Lane(self, slave, master, world.deliver_to_master)
        self.to_slave = Lane(self, master, slave, world.deliver_to_slave)
        self.is_broken = self.is_waking = False
        self.sent: int | None = None
        self.told = -1
        self.slave_heard = self.master_heard = network.clock.now
        self._world = world

    def end(self) -> None:
        if not self.is_broken:
            self.is_broken = True
            self._world.broken(self)
