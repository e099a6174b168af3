"""Layered: a mapping of which versions share what they have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeVar

MAX_LAYER: Final = 256
"""Most changes over a common ground; with more the ground is copied, so that copying costs little per commit."""
V = TypeVar("V")


class Layered(Mapping[str, V], Generic[V]):
    """An immutable mapping: a ground shared by versions, and this version's changes (None: gone)."""

    __slots__ = ("_ground", "_layer", "_len")

    def __init__(self, ground: dict[str, V], layer: dict[str, V | None] | None = None, length: int = -1) -> None:
        self._ground = ground
        self._layer = layer or {}
        self._len = len(ground) if length < 0 else length

    def __getitem__(self, key: str) -> V:
        value = self._layer[key] if key in self._layer else self._ground[key]
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self._layer[key] is not None if key in self._layer else key in self._ground

    def __iter__(self) -> Iterator[str]:
        layer = self._layer
        yield from (key for key in self._ground if key not in layer)
        yield from (key for key, value in layer.items() if value is not None)

    def __len__(self) -> int:
        return self._len

    def changed(self, changes: Mapping[str, V | None]) -> Layered[V]:
        """Return another one with these changes; None removes."""
        if not changes:
            return self
        length = self._len
        for key, value in changes.items():
            length += (value is not None) - (key in self)
        layer = {**self._layer, **changes}
        if len(layer) <= MAX_LAYER:
            return Layered(self._ground, layer, length)
        ground = dict(self._ground)
        for key, value in layer.items():
            if value is None:
                ground.pop(key, None)
            else:
                ground[key] = value
        return Layered(ground)

    def differences(self, before: Layered[V]) -> tuple[set[str], set[str]]:
        """Return the keys that are new since an earlier version, and those that are gone."""
        if self._ground is before._ground:
            touched = self._layer.keys() | before._layer.keys()
        else:
            touched = self.keys() ^ before.keys()
        added = {key for key in touched if key in self and key not in before}
        return added, {key for key in touched if key in before and key not in self}
