"""An append whose answer was lost with its master: the next one stores what it does not have, and each message once."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from entrepot.broker.ports.missing import Missing
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty, in_doubt
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from entrepot.store_client.remote import RemoteSettings, open_remote
from tests.controller.failing_over import another, joined
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.seed import seeded
from tests.support.stores.steps import append_all, eventually, settled
from tests.support.waiting import until
from tests.tiers.marks import scaled

QUORUM = Rule(RuleKind.QUORUM, 3, 2)
IN_SYNC = Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)
LOSSES = scaled(3, 20)
"""Masters that are lost in one run."""


def born(number: int, **others: Any) -> Message:
    return Message("t", f"{number}".encode(), queue_id=0, message_id=f"m{number}".encode(), born_time_ms=1, **others)


async def outcomes(group: ReplicatedGroup, numbers: list[int]) -> list[str]:
    """Of each message why it is in doubt, or was refused; empty where it was taken."""
    confirmation = group.store.messages.append([born(number) for number in numbers])
    failure = await settled(confirmation)
    if failure is not None:
        return [failure.message] * len(numbers)
    refusals = confirmation.refusals or [None] * len(numbers)
    return [f"refused: {refusal.message}" if refusal else "" for refusal in refusals]


async def stored(group: ReplicatedGroup) -> Counter[str]:
    """How often each body is in the queue."""
    messages = group.store.messages
    [bounds] = await messages.bounds("t")
    found: Counter[str] = Counter()
    while found.total() < bounds.max_offset:
        found.update(m.body.decode() for m in await messages.read("t", 0, found.total(), 500))
    return found


async def lost(message: Message, group: ReplicatedGroup, **lands: bool) -> Confirmation:
    """Append a message, and lose the master before it answers; `lands`: whether the slaves have it then."""
    old = group.master
    leading = group.replicas[old].store.leading
    assert leading is not None
    if not lands["lands"]:
        leading.broker.core.commit.hold()
    leading.confirm = lambda offset: None  # type: ignore[method-assign]  # nobody is told that slaves have it
    before = leading.engine.end
    confirmation = group.store.messages.append([message])
    await until(lambda: leading.engine.end > before, "the master has taken it")
    if lands["lands"]:
        end = leading.engine.end
        slaves = [each for number, each in group.replicas.items() if number != old]
        await until(lambda: all(each.status().synced >= end for each in slaves), "the slaves have it")
    assert not confirmation.settled
    await group.crash(old)
    await another(group, old)
    await group.start(old)
    return confirmation


@pytest.mark.parametrize("lands", [True, False], ids=["it has it", "it has it not"])
@pytest.mark.parametrize("kind", ["now", "later"])
async def test_the_next_master_stores_what_it_has_not(tmp_path: Path, kind: str, lands: bool) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM, controllers=3) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        assert await append_all(group.store, born(1)) == [None]
        at_ms = group.clock.now_ms() + 60_000
        later: dict[str, Any] = {SystemProperty.DELIVER_AT_MS: at_ms}
        message = born(2, system=later) if kind == "later" else born(2)
        confirmation = await lost(message, group, lands=lands)
        assert await confirmation.wait() is None, "it is taken, once"
        if kind == "later":
            assert await stored(group) == {"1": 1}
            assert len(await group.store.timers.timed_messages("t", limit=10)) == 1
            group.clock.advance(60_000)

        async def is_there() -> bool:
            return (await stored(group))["2"] > 0

        await eventually(is_there)
        assert await stored(group) == {"1": 1, "2": 1}


async def test_another_message_of_its_id_does_not_count(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM, controllers=3) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        same_id = Message("t", b"other", queue_id=0, message_id=b"m2", born_time_ms=1)
        assert await append_all(group.store, same_id) == [None]
        confirmation = await lost(born(2), group, lands=False)
        assert await confirmation.wait() is None
        assert await stored(group) == {"other": 1, "2": 1}


@pytest.mark.failure(
    "The answer to a publish is lost with its master",
    group="Replicas of a broker",
    does="The next master stores it if it lacks it: each message is there once, or was refused.",
    lost="nothing",
)
@pytest.mark.scaled
@pytest.mark.timeout(600)
@pytest.mark.parametrize("rule", [IN_SYNC, QUORUM], ids=["in-sync", "2-3"])
async def test_no_publish_is_in_doubt_while_masters_are_lost(tmp_path: Path, rule: Rule) -> None:
    """Producers go on all the time: what they are told is what is there."""
    chance = seeded(f"in doubt {rule.text}")
    told: dict[int, str] = {}
    async with ReplicatedGroup(tmp_path, rule, controllers=3) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        is_over = asyncio.Event()

        async def produce(first: int) -> None:
            number = first
            while not is_over.is_set():
                batch = list(range(number, number + chance.randint(1, 30)))
                number = batch[-1] + 1
                told.update(zip(batch, await outcomes(group, batch), strict=True))
                await asyncio.sleep(0)

        producers = [asyncio.ensure_future(produce(first)) for first in (0, 1_000_000, 2_000_000)]
        for _ in range(LOSSES):
            enough = len(told) + 30
            await until(lambda enough=enough: len(told) > enough, "messages are confirmed")  # type: ignore[misc]
            old = group.master
            await group.crash(old)
            await another(group, old)
            await group.start(old)
            await joined(group)
        is_over.set()
        await asyncio.gather(*producers)
        found = await stored(group)
    assert all(not each or each.startswith("refused: ") for each in told.values()), f"in doubt: {set(told.values())}"
    assert found == {str(number): 1 for number, refusal in told.items() if not refusal}


async def test_a_master_that_takes_no_messages_says_what_it_has(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, IN_SYNC) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        assert await append_all(group.store, born(1)) == [None]
        leading = group.replicas[group.master].store.leading
        assert leading is not None
        missing: Missing = leading.broker.missing
        refusal = EntrepotError(Code.UNAVAILABLE, "too few are in sync")
        assert await missing.append([born(1), born(2)], refusal).wait() == [None, refusal]
        assert await missing.append([born(2), born(1), born(3)]).wait() is None
        assert await stored(group) == {"1": 1, "2": 1, "3": 1}


async def test_an_id_that_a_gateway_made_is_of_one_message(tmp_path: Path) -> None:
    """A client that sends it again through another gateway has it born anew."""
    async with ReplicatedGroup(tmp_path, IN_SYNC) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        minted = bytes(range(16))
        first = Message("t", b"1", queue_id=0, message_id=minted, born_time_ms=1)
        again = Message("t", b"1", queue_id=0, message_id=minted, born_time_ms=2)
        assert await append_all(group.store, first) == [None]
        leading = group.replicas[group.master].store.leading
        assert leading is not None
        assert await leading.broker.missing.append([again]).wait() is None
        assert await stored(group) == {"1": 1}


@pytest.mark.parametrize("is_known", [True, False], ids=["in doubt", "as if it were new"])
async def test_a_second_gateway_sends_what_the_first_is_about_to_send(tmp_path: Path, is_known: bool) -> None:
    """It has asked, and it was not there; then the master got it from the first one."""
    async with ReplicatedGroup(tmp_path, QUORUM, controllers=1) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await group.in_sync()
        message = replace(born(1), message_id=b"0123456789abcdef")
        other = await open_remote(RemoteSettings(name_servers=(group.name_server_address,)), group.clock)
        try:
            assert await other.finder.messages_by_id(message.message_id, everywhere=True) == []
            leading = group.replicas[group.master].store.leading
            assert leading is not None
            leading.broker.core.commit.hold()
            first, before = group.store.messages.append([message]), leading.engine.end
            await until(lambda: leading.engine.end > before, "the master has it from the first one")
            again = replace(message, born_time_ms=2)
            second = other.messages.append([in_doubt(again) if is_known else again])
            await until(lambda: not other.cluster.ready[0].link.is_congested, "the second one has sent it")
            leading.broker.core.commit.go_on()
            assert (await settled(first), await settled(second)) == (None, None)
            assert await stored(group) == Counter({"1": 1 if is_known else 2})
        finally:
            await other.close()
