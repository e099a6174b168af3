"""Consistent-hash exchanges: the hash of its routing key, or of a header or property, gives each message one binding.

The hash names one of `SLOTS` slots.  Each slot belongs to the destination with the highest score there (weighted
rendezvous hashing), so shares follow the bindings' weights.  The choice depends on the set of bindings and not on their
order, so every gateway makes the same.  A new binding only takes slots; a removed one only gives up its own.  The owner
of a slot is computed at its first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from math import log
from typing import Final

from entrepot.domain.exchanges.binding import Binding, weight
from entrepot.domain.exchanges.exchange import HASH_HEADER, HASH_PROPERTY
from entrepot.domain.exchanges.table import Destinations, RoutedMessage
from entrepot.domain.field_value import comparable, text_of

SLOTS: Final = 1 << 14
"""Slots: more of them bring shares closer to the weights.  Fixed for good, since gateways of two versions must agree.
"""
_HASH_BYTES: Final = 8
_MASK: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15


class HashTable:
    """Bindings by weight.  Of several bindings to one destination the heaviest counts.  All messages that lack the
    header or property go to one place.  Of several routing keys the first counts."""

    __slots__ = ("_contenders", "_header", "_owners", "_property", "is_by_key")

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self._header = text_of(arguments.get(HASH_HEADER))
        self._property = text_of(arguments.get(HASH_PROPERTY))
        self.is_by_key = self._header is None and self._property is None
        self._contenders: dict[Binding, tuple[int, int, Destinations]] = {}
        self._owners: dict[int, Destinations] = {}

    def add(self, binding: Binding) -> None:
        destinations = Destinations()
        destinations.add(binding)
        seed = stable_hash(f"{binding.destination_kind} {binding.destination}")
        self._contenders[binding] = (seed, weight(binding), destinations)
        self._owners.clear()

    def remove(self, binding: Binding) -> None:
        del self._contenders[binding]
        self._owners.clear()

    def match(self, message: RoutedMessage) -> tuple[Destinations, ...]:
        if not self._contenders:
            return ()
        slot = stable_hash(self._hashed(message)) % SLOTS
        owner = self._owners.get(slot)
        if owner is None:
            owner = self._owners[slot] = self._owner(slot)
        return (owner,)

    def _hashed(self, message: RoutedMessage) -> str:
        if self._header is not None:
            headers = message.headers()
            return repr(comparable(headers[self._header])) if self._header in headers else ""
        if self._property is not None:
            value = message.properties_of().get(self._property)
            return "" if value is None else str(comparable(value))
        return message.routing_keys[0] if message.routing_keys else ""

    def _owner(self, slot: int) -> Destinations:
        return max(self._contenders.values(), key=lambda each: (_score(each[0], slot, each[1]), each[0]))[2]


def stable_hash(text: str) -> int:
    """Return a hash that is the same in every process (`hash()` is not)."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=_HASH_BYTES).digest(), "big")


def _score(seed: int, slot: int, share: int) -> float:
    """Return a destination's score for a slot.  It is the highest as often as the share says."""
    mixed = (seed + (slot + 1) * _GOLDEN) & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    mixed ^= mixed >> 31
    return -share / log(((mixed >> 11) + 0.5) / (1 << 53))
