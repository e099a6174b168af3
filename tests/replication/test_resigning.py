"""What still comes to a master that resigned, before it says goodbye, was not taken: it says so."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from entrepot.broker.remoting.link import Link, LinkSettings
from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.message_batch import encode_messages
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append, message
from tests.support.waiting import PATIENCE_SECONDS, until


async def test_what_comes_after_a_master_has_resigned_was_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entrepot.broker.replication.leading.PART_SECONDS", 1.0)
    async with ReplicatedGroup(tmp_path, Rule(RuleKind.QUORUM, 3, 2)) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "before")
        old = group.master
        link = Link(group.addresses[old], LinkSettings(who="gateway"))
        link.start()
        assert await link.wait_up(5)
        moving = asyncio.ensure_future(group.elect(old % 3 + 1))
        await until(lambda: group.replicas[old].store.leading is None, "it has resigned")
        payload = await link.call(wire.APPEND, encode_messages([message("t", "late")]), 5)
        assert wire.APPEND.result is not None
        [refusal] = wire.APPEND.result.decode(payload)
        assert (refusal.code, refusal.message) == (Code.UNAVAILABLE, wire.LEAVES)
        with pytest.raises(EntrepotError, match=wire.NOT_HERE):
            await link.ask(rows.GET, ["key"], seconds=5)
        await moving
        await link.close()
        await append(group.store, "t", "behind")


async def test_a_master_that_resigns_while_it_chooses_the_keeper_tells_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next master chooses, and this one's choice is tried no more."""
    async with ReplicatedGroup(tmp_path, Rule(RuleKind.QUORUM, 3, 2)) as group:
        old = group.master
        leading = group.replicas[old].store.leading
        assert leading is not None and leading._server is not None
        work, server = "choice of the key-values' keeper", leading._server
        await group.elect(old % 3 + 1)

        async def decided(identity: object) -> bool:
            return True

        monkeypatch.setattr(server._registrar, "decide_keeper", decided)
        again = background(asyncio.get_running_loop()).keep(work, server._decide)
        await asyncio.wait_for(again, PATIENCE_SECONDS)
        assert background(asyncio.get_running_loop()).faults[work] == 0
