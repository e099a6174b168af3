"""Views of key-values over a keeper that is away, moves, answers late and tells late: random histories.

Invariants: what was written or asked for here is known when that returns, and nothing older comes back after it while
the watch goes on; when nothing moves any more, the view is what there is.  `ENTREPOT_TEST_SEED` tries one again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import pytest

from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValueChange, KeyValueEvent, is_older
from entrepot.domain.ports import KeyValues
from entrepot.gateway.key_values import watched_keys
from entrepot.gateway.key_values.watched_keys import WatchedKeys
from entrepot.gateway.key_values.watched_table import WatchedTable
from tests.support.seed import seeded
from tests.tiers.marks import scaled
from tests.unit.watched.simulated_keeper import SimulatedKeeper

HISTORIES = scaled(200, 8_000)
STEPS = 120
NAMES = "abcde"


class Plain:
    """A view that knows no versions: what it is told is what it has."""

    def __init__(self, store: KeyValues) -> None:
        self.values: dict[str, str] = {}
        self._keys = WatchedKeys(store, "y/", self._take, lambda: [f"y/{name}" for name in self.values])

    def _take(self, events: Sequence[KeyValueEvent]) -> None:
        for event in events:
            if event.value is None:
                self.values.pop(event.key[2:], None)
            else:
                self.values[event.key[2:]] = event.value.decode()


class History:
    """A table and a plain view that are written together, at one gateway."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.expiry = SimulatedKeeper()
        self.loop = asyncio.get_running_loop()
        store = cast("KeyValues", self.expiry)
        self.table = WatchedTable(store, "x/", bytes.decode, str.encode)
        self.plain = Plain(store)
        self.keys = [self.table._keys, self.plain._keys]
        self.promised: dict[str, int] = {}
        """Versions below which nothing may be shown, while the watch goes on."""
        self.tasks: list[asyncio.Task[None]] = []
        self.losses = 0

    async def run(self) -> None:
        self._others()
        self.tasks += [self.loop.create_task(keys.start(wait_seconds=1e9)) for keys in self.keys]
        for _ in range(STEPS):
            self._step()
            if self.rng.random() < 0.7:  # else what comes next comes before anybody has taken it in
                await self._settle()
            self._check_promises()
        await self._rest()
        for keys in self.keys:
            keys.close()
            assert len(keys._ahead) <= len(NAMES)
        kept = self.expiry.kept
        assert dict(self.table.items()) == {k[2:]: v.value.decode() for k, v in kept.items() if k.startswith("x/")}
        assert all(self.table.version(name) == kept[f"x/{name}"].version for name, _ in self.table.items())
        assert self.plain.values == {k[2:]: v.value.decode() for k, v in kept.items() if k.startswith("y/")}

    def _step(self) -> None:
        keeper, rng = self.expiry, self.rng
        if keeper.is_away:
            if rng.random() < 0.3:
                keeper.find(moves=rng.random() < 0.4)
            elif rng.random() < 0.3:
                self._others()
            return
        may = keeper.may()
        if may and rng.random() < 0.75:
            rng.choice(may)()
        elif rng.random() < 0.06:
            self.losses += 1
            self.promised.clear()
            keeper.lose(keeps_answers=rng.random() < 0.5)
        else:
            action = rng.choice((self._write, self._look, self._catch_up, self._noop))
            self.tasks.append(self.loop.create_task(action()))
            if rng.random() < 0.5:
                self._others()

    def _value(self) -> str | None:
        return None if self.rng.random() < 0.3 else str(self.rng.randrange(1000))

    def _others(self) -> None:
        """Another gateway writes."""
        chosen = self.rng.sample([prefix + name for prefix in ("x/", "y/") for name in NAMES], self.rng.randint(1, 3))
        values = [self._value() for _ in chosen]
        changes = [KeyValueChange(k, None if v is None else v.encode()) for k, v in zip(chosen, values, strict=True)]
        self.expiry.change(changes)

    async def _noop(self) -> None:
        """Nobody here does anything."""

    async def _write(self) -> None:
        table, name, losses = self.table, self.rng.choice(NAMES), self.losses
        changes = [table.change(name, self._value(), table.version(name) if self.rng.random() < 0.5 else None)]
        if self.rng.random() < 0.5:
            changes.append(KeyValueChange(f"y/{name}", changes[0].value))
        try:
            version = await table._keys.write(changes, self.plain._keys)
        except EntrepotError:
            return
        if losses == self.losses:
            self._promise(name, version)

    async def _look(self) -> None:
        name, losses = self.rng.choice(NAMES), self.losses
        try:
            await (self.plain._keys.look([f"y/{name}"]) if self.rng.random() < 0.5 else self.table.look(name))
        except EntrepotError:
            return
        if losses == self.losses and self.table.version(name):
            self._promise(name, self.table.version(name))

    async def _catch_up(self) -> None:
        """What was written together with a key of the table is in the plain view."""
        version, losses = self.table.version(self.rng.choice(NAMES)), self.losses
        if not version or self.losses:
            return
        try:
            is_told = ("y/", version) in self.expiry.told
            await self.plain._keys.catch_up(version, patience_seconds=1e9 if is_told else 0)
        except EntrepotError:
            return
        if losses == self.losses:
            for name in NAMES:
                states = [(v, value) for v, key, value in self.expiry.written if key == f"y/{name}"]
                before = [value for v, value in states if v <= version][-1:] or [None]
                allowed = [*before, *(value for v, value in states if v > version)]
                shown = self.plain.values.get(name)
                assert (None if shown is None else shown.encode()) in allowed, f"y/{name} is from before {version}"

    def _promise(self, name: str, version: int) -> None:
        self.promised[name] = version
        self._check_promises()

    def _check_promises(self) -> None:
        for name, version in self.promised.items():
            shown = self.table.version(name)
            assert not shown or not is_older(shown, version), f"{name} was known at {version}, and is shown at {shown}"

    async def _settle(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)

    async def _rest(self) -> None:
        """What is under way comes to its end, and nothing new is begun."""
        if self.expiry.is_away:
            self.expiry.find(moves=False)
        for _ in range(1000):
            await self._settle()
            for step in self.expiry.may()[:1]:
                step()
            if not self.expiry.may() and all(task.done() for task in self.tasks) and self._is_quiet():
                await asyncio.gather(*self.tasks)  # what they found wrong
                return
        raise AssertionError("it does not come to rest")

    def _is_quiet(self) -> bool:
        return all(keys._again is None and keys.is_complete for keys in self.keys)


def search(purpose: str, histories: int) -> None:
    rng = seeded(purpose)
    for number in range(histories):
        seed = rng.randrange(1 << 62)
        try:
            asyncio.run(one(seed))
        except Exception as failure:
            raise AssertionError(f"history {number}, random.Random({seed}): {failure}") from failure


async def one(seed: int) -> None:
    await History(random.Random(seed)).run()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_keys, "RETRY_SECONDS", 0)


@pytest.mark.scaled
@pytest.mark.timeout(900)
def test_views_end_equal_and_show_nothing_older() -> None:
    search("watched", HISTORIES)


def forgets_what_was_missed(self: WatchedKeys) -> None:
    if self._beginnings:
        self._seen = ABSENT
    else:
        BEGUN(self)


@contextmanager
def notices_nothing(self: WatchedKeys) -> Iterator[dict[str, int]]:
    yield {}


def is_never_ahead(self: WatchedKeys, key: str, version: int) -> None:
    """What the watch tells late is taken."""


BEGUN: Callable[[WatchedKeys], None] = WatchedKeys._begun
FAULTS = {
    "_begun": forgets_what_was_missed,
    "_question": notices_nothing,
    "_note": is_never_ahead,
    "_has_told": lambda self, version: False,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WatchedKeys, fault, FAULTS[fault])
    with pytest.raises(AssertionError, match="history"):
        search(fault, 20 * HISTORIES)
