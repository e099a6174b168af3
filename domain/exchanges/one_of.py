"""Exchanges that give each message to one of all their bindings, whatever their keys: RabbitMQ's random exchange plugin
and its local form, and the modulus-hash exchange of its sharding plugin.

Bindings are in an order that does not depend on when they came, so every gateway makes the same choice by a hash.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections.abc import Callable
from typing import TypeAlias

from entrepot.domain.exchanges.binding import Binding
from entrepot.domain.exchanges.hash import stable_hash
from entrepot.domain.exchanges.table import Destinations, RoutedMessage

Choose: TypeAlias = Callable[[RoutedMessage, int], int]
"""Function that returns the number of a binding for a message, below the given count."""
Pick: TypeAlias = Callable[[int], int]
"""Function that returns any number below a count."""
_Rank: TypeAlias = tuple[str, str, str, str]


class OneOfTable:
    """Bindings of which one is chosen.  `is_by_key`: the first routing key alone decides."""

    __slots__ = ("_choose", "_destinations", "_ranks", "is_by_key")

    def __init__(self, choose: Choose, *, is_by_key: bool) -> None:
        self._choose, self.is_by_key = choose, is_by_key
        self._ranks: list[_Rank] = []
        self._destinations: dict[_Rank, Destinations] = {}

    def add(self, binding: Binding) -> None:
        rank = _rank(binding)
        insort(self._ranks, rank)
        self._destinations[rank] = destinations = Destinations()
        destinations.add(binding)

    def remove(self, binding: Binding) -> None:
        rank = _rank(binding)
        del self._ranks[bisect_left(self._ranks, rank)]
        del self._destinations[rank]

    def match(self, message: RoutedMessage) -> tuple[Destinations, ...]:
        ranks = self._ranks
        return (self._destinations[ranks[self._choose(message, len(ranks))]],) if ranks else ()


def by_chance(pick: Pick) -> Choose:
    """Return a choice of any binding, each as often as the others."""
    return lambda message, count: pick(count)


def in_turn() -> Pick:
    """Return a pick without chance: one number after the other."""
    turns = itertools.count()
    return lambda count: next(turns) % count


def by_modulus(message: RoutedMessage, count: int) -> int:
    """Choose by the hash of the first routing key."""
    return stable_hash(message.routing_keys[0] if message.routing_keys else "") % count


def _rank(binding: Binding) -> _Rank:
    return str(binding.destination_kind), binding.destination, binding.routing_key, repr(binding.argument_identity)
