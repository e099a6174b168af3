"""Conditional counters with a watcher, and what must be true of them through any fault."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from entrepot.domain.errors import AWAY, Code, EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValueChange, KeyValueEvent
from entrepot.store_client.etcd import EtcdKeyValues
from tests.support.waiting import PATIENCE_SECONDS, until

PAUSE_SECONDS: Final = 0.05


class CountingLoad:
    """Writers that count in keys of their own, each step on condition of the one before; `watching` tells them."""

    def __init__(self, writing: EtcdKeyValues, watching: EtcdKeyValues, writers: int = 20) -> None:
        self._writing, self._watching = writing, watching
        self._keys = [f"counter/{number}" for number in range(writers)]
        self.confirmed: dict[str, list[tuple[int, int]]] = defaultdict(list)
        """Value and version of each confirmed step, by key."""
        self.told: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.outcomes: Counter[str] = Counter()
        """Codes of steps that failed, and what had become of them."""
        self.beginnings = 0
        self._ends = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def steps(self) -> int:
        return sum(map(len, self.confirmed.values()))

    async def begin(self) -> None:
        """Start, and return once all have counted."""
        self._watching.watch("counter/", self._on_events, self._on_begun)
        await until(lambda: self.beginnings, "the watch begins")
        self._tasks = [asyncio.create_task(self._count(key)) for key in self._keys]
        await until(lambda: len(self.confirmed) == len(self._keys), self.state)

    async def more(self, steps: int) -> None:
        """Wait for further confirmed steps."""
        wanted = self.steps + steps
        await until(lambda: self.steps >= wanted, self.state, 2 * PATIENCE_SECONDS)

    async def end(self) -> None:
        """Let the writers end, and the watcher tell the rest; check that nothing is lost, left out, or told twice."""
        self._ends = True
        await asyncio.wait_for(asyncio.gather(*self._tasks), 2 * PATIENCE_SECONDS)
        found = {}
        for key in self._keys:
            [kept] = await self._writing.get([key])
            assert kept is not None
            found[key] = int(kept.value), kept.version
        await until(lambda: all(self.told[key][-1:] == [found[key]] for key in self._keys), self.state)
        for key in self._keys:
            told, values = self.told[key], [value for value, _ in self.told[key]]
            assert values == list(range(1, found[key][0] + 1)), f"{key}: told twice, left out, or out of order"
            assert set(self.confirmed[key]) <= set(told), f"{key}: confirmed and not told"
        print(f"{self.steps} confirmed, 0 lost, 0 told twice, 0 not told; failed steps: {dict(self.outcomes)}")

    def state(self) -> str:
        return f"{self.steps} steps, failed ones: {dict(self.outcomes)}"

    def _on_events(self, events: Sequence[KeyValueEvent]) -> None:
        for event in events:
            assert event.value is not None
            self.told[event.key].append((int(event.value), event.version))

    def _on_begun(self) -> None:
        self.beginnings += 1

    async def _count(self, key: str) -> None:
        value, version = 0, ABSENT
        in_doubt = False
        while not self._ends:
            step = KeyValueChange(key, str(value + 1).encode(), version)
            refused = await self._refusal_of(key, step)
            if refused is None:
                value, version = self.confirmed[key][-1]
                in_doubt = False
                continue
            was = value
            value, version = await self._found(key)
            assert value in (was, was + 1), f"{key} went from {was} to {value}"
            is_late = refused is Code.PRECONDITION_FAILED and in_doubt and value == was + 1
            assert refused in AWAY or is_late, f"{key}: {refused.name}"
            assert refused in (Code.OUTCOME_UNKNOWN, Code.PRECONDITION_FAILED) or value == was, f"{key}: it was done"
            in_doubt = refused is Code.OUTCOME_UNKNOWN and value == was
            self.outcomes[f"{refused.name} {'done' if value > was else 'not done'}"] += 1

    async def _refusal_of(self, key: str, step: KeyValueChange) -> Code | None:
        try:
            version = await self._writing.write([step])
        except EntrepotError as refused:
            return refused.code
        self.confirmed[key].append((int(step.value or b""), version))
        return None

    async def _found(self, key: str) -> tuple[int, int]:
        while True:
            try:
                [kept] = await self._writing.get([key])
            except EntrepotError as refused:
                if refused.code not in AWAY:
                    raise
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                return (0, ABSENT) if kept is None else (int(kept.value), kept.version)
