"""Families of key-values, each of which may have a keeper of its own (`facts.sessions` and others; ADR 85).

etcd carries some thousand writes a second, and each gateway reads all that is retained at its start.  So what is hot or
large can go to brokers of ours, and the rest stays.  A family is closed: no write changes keys of two, which
`FactsOfFamilies` would refuse.  Tests hold every write to that (`family_of` in the model's key-values).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import MAX_SCAN, KeyValue, KeyValueChange, OnEvents
from entrepot.domain.ports.facts import Facts

SESSIONS, RETAINED, HELD = "sessions", "retained", "held"
FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    SESSIONS: ("session/", "session-", "gateway/", "peer/"),
    RETAINED: ("retained/",),
    HELD: ("rocketmq/held/",),
}
"""Beginnings of keys.  `sessions`: MQTT sessions, and the leases of gateways, which are written with them; `retained`:
retained messages; `held`: deliveries of RocketMQ's consumers that wait for their acknowledgement."""
REST: Final = ""


def family_of(key: str) -> str:
    """Return the family of a key, or of all keys with a prefix; `REST`: what has no family."""
    return next((name for name, begins in FAMILIES.items() if key.startswith(begins)), REST)


class FactsOfFamilies:
    """Implements `domain.ports.facts.Facts` with a keeper for each of some families, and `rest` for all else."""

    def __init__(self, rest: Facts, keepers: Mapping[str, Facts]) -> None:
        self._rest, self._keepers = rest, dict(keepers)
        self._all = tuple(dict.fromkeys((rest, *keepers.values())))

    def _keeper(self, key: str) -> Facts:
        return self._keepers.get(family_of(key), self._rest)

    def _of_prefix(self, prefix: str) -> Facts:
        """Return the keeper of all keys with a prefix.  Raises BAD_REQUEST for a prefix of several."""
        beginnings = (begin for name in self._keepers for begin in FAMILIES[name])
        if any(begin.startswith(prefix) and begin != prefix for begin in beginnings):
            raise EntrepotError(Code.BAD_REQUEST, f"keys with the prefix {prefix!r} have several keepers")
        return self._keeper(prefix)

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        by_keeper: dict[Facts, list[str]] = {}
        for key in keys:
            by_keeper.setdefault(self._keeper(key), []).append(key)
        answers = await asyncio.gather(*(keeper.get(asked) for keeper, asked in by_keeper.items()))
        found = {
            key: value
            for asked, told in zip(by_keeper.values(), answers, strict=True)
            for key, value in zip(asked, told, strict=True)
        }
        return [found[key] for key in keys]

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        return await self._of_prefix(prefix).scan(prefix, after=after, limit=limit)

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        keepers = {self._keeper(change.key) for change in changes} or {self._rest}
        if len(keepers) > 1:
            keys = sorted({change.key.partition("/")[0] for change in changes})
            raise EntrepotError(Code.BAD_REQUEST, f"one write has keys of two keepers: {', '.join(keys)}")
        return await keepers.pop().write(changes)

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        return self._of_prefix(prefix).watch(prefix, on_events, on_begun)

    def age_seconds(self) -> float:
        """The age of what `rest` keeps, such as users: the others keep nothing that is trusted for its age."""
        return self._rest.age_seconds()

    @property
    def failure(self) -> EntrepotError | None:
        return next((each.failure for each in self._all if each.failure is not None), None)

    @property
    def damage(self) -> list[str]:
        return [sentence for each in self._all for sentence in each.damage]

    def gauges(self) -> dict[str, float]:
        """Return the figures of all keepers: counts added up, ages by the oldest."""
        found: dict[str, float] = {}
        for name, value in (item for each in self._all for item in each.gauges().items()):
            found[name] = max(found.get(name, 0.0), value) if "age" in name else found.get(name, 0.0) + value
        return found

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._all))
