"""The real disk and sync process: a store that is killed keeps everything it has confirmed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from entrepot.broker.broker import Broker
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from tests.crash.sigkill_child import settings_of
from tests.support.clock import ManualClock
from tests.support.soak_table import tell
from tests.tiers.marks import scaled

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = scaled(3, 30)


def one_life(directory: Path, round_number: int, lines: int) -> list[list[str]]:
    """Let it run until it has said so many lines, kill it, and return all that it had said."""
    command = [sys.executable, "-m", "tests.crash.sigkill_child", str(directory), str(round_number)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = []
        for line in child.stdout:
            said.append(line)
            if sum(not one.startswith("20") for one in said) >= lines:
                break
        assert child.poll() is None, "it was alive until then"
        child.kill()
        said += child.stdout.readlines()  # what it had confirmed and we had not read yet
    return [line.split() for line in said if line.endswith("\n")]


@pytest.mark.failure(
    "The store's process is killed",
    group="A broker without replicas",
    does="The next start recovers from the log. Nothing acknowledged comes again.",
    lost="nothing confirmed",
)
@pytest.mark.scaled
@pytest.mark.timeout(600)
async def test_nothing_confirmed_is_lost_and_nothing_acknowledged_returns(tmp_path: Path):
    rng = Random(20)
    confirmed: set[str] = set()
    acknowledged: set[str] = set()
    directory = tmp_path / "data"
    for round_number in range(ROUNDS):
        for word, *ids in one_life(directory, round_number, rng.randint(2, 400)):
            if word == "confirmed":
                confirmed.update(ids)
            elif word == "acknowledged":
                acknowledged.update(ids)
    clock = ManualClock(time.time_ns() // 1_000_000 + 86_400_000)  # what was handed out is due again
    store = await Broker.open(settings_of(directory), clock)
    await store.topology.put_topic(Topic("t", queues=2))
    found: dict[str, bytes] = {}
    for bounds in await store.messages.bounds("t"):
        messages = await store.messages.read("t", bounds.queue_id, 0, 1_000_000)
        assert len(messages) == bounds.max_offset
        order = [m.message_id for m in messages]
        assert order == sorted(order)
        assert not found.keys() & {m.message_id.decode() for m in messages}
        found |= {m.message_id.decode(): m.body for m in messages}
    tell(
        "an embedded store killed",
        rounds=ROUNDS,
        messages=len(confirmed),
        lost=len(confirmed - found.keys()),
        faults=ROUNDS,
    )
    assert len(confirmed) > 100, "it had time to do something"
    assert confirmed <= found.keys(), "lost"
    for name, body in found.items():
        number = int(name[4:])
        assert body == name.encode() * (1 + number % 40), "phantom"
    left: set[str] = set()
    while deliveries := await store.consumption.pop(PopRequest("t", "g", 1000)):
        left |= {d.message.message_id.decode() for d in deliveries}
    assert not left & acknowledged, "returned"
    assert left | acknowledged <= found.keys()
    await store.close()
