"""Half messages and delayed ones through lost masters: each waits on with the next one, and comes when it is due."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from entrepot.domain.transaction import TransactionEnd
from tests.controller.failing_over import another, joined, reached
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.seed import seeded
from tests.support.stores.steps import append, bodies, codes, eventually, handles, message, pop, settled
from tests.tiers.marks import scaled

IN_SYNC = Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)
QUORUM = Rule(RuleKind.QUORUM, 3, 2)
RULES = pytest.mark.parametrize("rule", [IN_SYNC, QUORUM], ids=["in-sync", "2-3"])
CHECK_AFTER_MS = 6_000
"""The default of every store."""
FAULTS = scaled(2, 12)
LONGEST_MS = 2_000
NEVER = 1 << 60

pytestmark = pytest.mark.usefixtures("quick")


def half(body: str) -> Message:
    return replace(message("t", body), system={SystemProperty.TRANSACTION_ID: body})


def timed(body: str, due_ms: int) -> Message:
    return replace(message("t", body), system={SystemProperty.DELIVER_AT_MS: str(due_ms)})


async def prepare(group: ReplicatedGroup, *names: str) -> None:
    confirmation = group.store.transactions.append_half([half(name) for name in names])
    assert await settled(confirmation) is None and confirmation.refusals is None


async def end(group: ReplicatedGroup, name: str, *, commit: bool) -> list[Code | None]:
    return codes(await group.store.transactions.end_transactions([TransactionEnd("t", name, commit)]))


async def master_lost(group: ReplicatedGroup) -> None:
    """It dies, another one takes over, and it is back."""
    old = group.master
    await group.crash(old)
    await another(group, old)
    await group.start(old)
    await joined(group)
    await reached(group)


async def taken(group: ReplicatedGroup, *expected: str) -> None:
    """These come, each once, and nothing else does."""
    found: list[str] = []

    async def are_there() -> bool:
        popped = await pop(group.store, "t")
        found.extend(bodies(popped))
        if popped:
            outcomes = await group.store.consumption.acknowledge("t", "g", handles(popped))
            assert codes(outcomes) == [None] * len(popped)
        return len(found) >= len(expected)

    await eventually(are_there)
    assert sorted(found) == sorted(expected)


@RULES
async def test_half_messages_are_asked_about_and_end_with_the_next_master(tmp_path: Path, rule: Rule) -> None:
    async with ReplicatedGroup(tmp_path, rule, controllers=1) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await prepare(group, "committed", "rolled back", "yes", "no", "silent")
        assert await end(group, "committed", commit=True) == [None]
        assert await end(group, "rolled back", commit=False) == [None]
        await master_lost(group)
        for name in ("committed", "rolled back"):
            assert await end(group, name, commit=True) == [Code.INVALID_TRANSACTION_ID], "it has ended"
        assert await end(group, "yes", commit=True) == [None]
        assert await end(group, "no", commit=False) == [None]

        async def asked() -> list[str]:
            return bodies(await group.store.transactions.take_checks(("t",), 10))

        assert await asked() == []
        group.clock.advance(CHECK_AFTER_MS + 1)
        assert await eventually(asked) == ["silent"]
        await master_lost(group)
        [waiting] = await group.store.transactions.half_messages()
        assert waiting.checks == 1, "the next master knows that its producer was asked"
        assert await asked() == []
        await taken(group, "committed", "yes")
        group.clock.advance(max(0, waiting.due_ms - group.clock.now_ms()) + 1)
        assert await eventually(asked) == ["silent"]
        assert await end(group, "silent", commit=True) == [None]
        await master_lost(group)
        await append(group.store, "t", "whole")
        await taken(group, "silent", "whole")
        assert await group.store.transactions.half_messages() == []


@RULES
async def test_delayed_messages_come_when_they_are_due(tmp_path: Path, rule: Rule) -> None:
    """Also those that were due while nobody was master; what was recalled does not come."""
    async with ReplicatedGroup(tmp_path, rule, controllers=1) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        begun = group.clock.now_ms()
        due = {"first": begun + 10_000, "missed": begun + 20_000, "recalled": begun + 20_000, "last": begun + 60_000}
        confirmation = group.store.messages.append([timed(name, at) for name, at in due.items()])
        assert await settled(confirmation) is None and confirmation.refusals is None
        await master_lost(group)
        assert len(await group.store.timers.timed_messages()) == 4
        await append(group.store, "t", "now")
        await taken(group, "now")
        group.clock.advance(10_000)
        await taken(group, "first")
        await group.store.timers.recall("t", b"recalled", due["recalled"])
        old = group.master
        await group.crash(old)
        group.clock.advance(10_000)
        await another(group, old)
        await taken(group, "missed")
        await group.start(old)
        await joined(group)
        group.clock.advance(39_000)
        await append(group.store, "t", "before")
        await taken(group, "before")
        group.clock.advance(1_000)
        await taken(group, "last")
        assert await group.store.timers.timed_messages() == []


class Waiting:
    """Messages that wait, by name.  `times`: when they may come, `kept`: those that are confirmed and must come."""

    def __init__(self, group: ReplicatedGroup, chance: Random) -> None:
        self._group, self._chance = group, chance
        self.times: dict[str, int] = {}
        self.halves: set[str] = set()
        self.kept: set[str] = set()
        self.taken: set[str] = set()
        self.wrong: list[str] = []
        self._acknowledged: set[str] = set()

    async def turn(self) -> None:
        """One more of each kind; all that is there is taken; some time passes."""
        number, store = len(self.times), self._group.store
        later, whole = f"later {number}", f"half {number}"
        self.times[later] = self._group.clock.now_ms() + self._chance.randrange(1, LONGEST_MS)
        self.times[whole] = NEVER
        if await is_confirmed(store.messages.append([timed(later, self.times[later])])):
            self.kept.add(later)
        if await is_confirmed(store.transactions.append_half([half(whole)])):
            self.halves.add(whole)
        for name in sorted(self.halves):
            if self._chance.random() < 0.7:
                await self.commit(name)
        await self.take()
        self._group.clock.advance(self._chance.randrange(LONGEST_MS // 10))

    async def commit(self, name: str) -> None:
        """An answer that was lost is asked for again, and the transaction may have ended by then."""
        self.times[name] = 0
        outcomes = await end(self._group, name, commit=True)
        if outcomes in ([None], [Code.INVALID_TRANSACTION_ID]):
            self.halves.discard(name)
            self.kept.add(name)

    async def take(self) -> None:
        try:
            found = await pop(self._group.store, "t")
        except EntrepotError:
            return
        now = self._group.clock.now_ms()
        for name in bodies(found):
            if name in self._acknowledged or self.times.get(name, NEVER) > now:
                self.wrong.append(name)
        self.taken |= set(bodies(found))
        with suppress(EntrepotError):
            outcomes = await self._group.store.consumption.acknowledge("t", "g", handles(found))
            pairs = zip(bodies(found), outcomes, strict=True)
            self._acknowledged |= {name for name, outcome in pairs if outcome is None}


async def is_confirmed(confirmation: Confirmation) -> bool:
    return await settled(confirmation) is None and not any(confirmation.refusals or [])


@pytest.mark.scaled
@RULES
async def test_none_is_lost_early_or_made_up_while_masters_die(tmp_path: Path, rule: Rule) -> None:
    """Nor does an acknowledged one come again."""
    chance = seeded(rule.text)
    async with ReplicatedGroup(tmp_path, rule, controllers=1) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        waiting = Waiting(group, chance)
        for _ in range(FAULTS):
            for _ in range(10):
                await waiting.turn()
            old = group.master
            await group.crash(old)
            while group.master in (0, old):
                await waiting.turn()
            await group.start(old)
            await joined(group)
        await reached(group)
        for name in sorted(waiting.halves):
            await waiting.commit(name)
        assert not waiting.halves

        async def all_there() -> bool:
            group.clock.advance(LONGEST_MS)
            await waiting.take()
            return waiting.kept <= waiting.taken

        await eventually(all_there)
        assert waiting.wrong == []
        assert waiting.taken <= waiting.times.keys()
