"""`entrepot store verify` across replicas, and `dump --diverged`: the commands that operators use."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.replication.test_healing import harm
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append
from tests.support.waiting import until

QUORUM = Rule(RuleKind.QUORUM, 3, 2)


async def run(*arguments: str, code: int = 0) -> str:
    """What a command prints, as JSON where it ends well enough for that."""
    command = [sys.executable, "-m", "entrepot.gateway.cli", "store", *arguments, "--json"]
    outcome = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert outcome.returncode == code, outcome.stdout + outcome.stderr
    return outcome.stdout + outcome.stderr


async def test_logs_are_compared_across_replicas(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        for _ in range(24):
            await append(group.store, "t", bytes(100_000))
        await group.even()
        replicas = [part for address in group.addresses.values() for part in ("--replica", address)]
        found = json.loads(await run("verify", *replicas))
        assert found["healthy"]
        assert found["replicas"]["differences"] == []
        assert found["replicas"]["to"] >= 2_400_000
        places = [message.commit_log_offset for message in await group.store.messages.read("t", 0, 0, 24)]
        harm(group, 2, places[13])
        found = json.loads(await run("verify", *replicas, code=1))
        [difference] = found["replicas"]["differences"]
        assert difference["from"] <= places[13] < difference["to"]
        assert difference["places"] == [group.addresses[2]]


@pytest.mark.soak
async def test_a_directory_is_compared_with_running_replicas(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", *(bytes([65 + number]) * 1000 for number in range(20)))
        await group.even()
        [first, *_] = await group.store.messages.read("t", 0, 3, 1)
        away = next(replica for replica in group.replicas if replica != group.master)
        await group.stop(away)
        directory, master = str(group.data_dir(away)), group.addresses[group.master]
        found = json.loads(await run("verify", "--data-dir", directory, "--replica", master))
        assert found["healthy"]
        assert found["replicas"]["places"] == [master, directory]
        harm(group, away, first.commit_log_offset)
        found = json.loads(await run("verify", "--data-dir", directory, "--replica", master, code=1))
        assert len(found["replicas"]["differences"]) == 1
        await group.start(away)
    assert "two replicas" in await run("verify", "--replica", master, code=2)
    assert "does not answer" in await run("verify", "--replica", master, "--replica", master, code=2)


@pytest.mark.failure(
    "An old master, under `async`, has records that no other replica has",
    group="Network",
    does="It cuts them when it follows the next master, and keeps them in `diverged/`.",
    lost="these records, until somebody sends them again",
    told="`cluster show`; `entrepot store dump --diverged` shows them",
)
@pytest.mark.failure_also("The master dies, under `async`")
async def test_what_was_cut_is_listed_and_shown(tmp_path: Path) -> None:
    """An old master's tail that nobody else had, under the rule that confirms it alone."""
    async with ReplicatedGroup(tmp_path, Rule(RuleKind.ASYNC, 2)) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "on both")
        await group.even()
        old = group.master
        await group.stop(3 - old)
        await append(group.store, "t", "on one alone")
        end = group.replicas[old].status().end
        await group.stop(old)
        await group.start(3 - old)
        await group.elect(without=(old,))
        await group.start(old)
        await group.even()
        await until(lambda: group.replicas[old].status().log.diverged, "what only it had is cut")
        [(start, last)] = group.replicas[old].status().log.diverged
        assert (start < end, last) == (True, end)
        await group.stop(old)
        lines = (await run("dump", "--data-dir", str(group.data_dir(old)), "--diverged", "--bodies")).splitlines()
        messages = [found for found in map(json.loads, lines) if found["kind"] == "message"]
        assert [found["topic"] for found in messages] == ["t"]
        assert "on one alone" in json.dumps(messages)
