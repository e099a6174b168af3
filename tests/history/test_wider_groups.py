"""Histories of groups with more than three replicas and three controllers beside a gateway: five controllers, an
observer that is promoted, and a gateway that reads from a slave of its zone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.history.lost_masters import RULES, run_history
from tests.support.brokers.quick_brokers import work_often
from tests.support.seed import seeded
from tests.tiers.marks import scaled, soak_only

ROUNDS = scaled(1, 3)
MORE_FAULTS = scaled(0, 4)
BY_RULE = pytest.mark.parametrize("rule", ["2-3", soak_only("in-sync")])

pytestmark = [pytest.mark.scaled, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker does by itself is done often."""
    work_often(monkeypatch)
    monkeypatch.setattr("entrepot.broker.replication.controllers.LOOK_SECONDS", 0.1)
    monkeypatch.setattr("entrepot.store_client.remote.slave_readers.CHANGED_SECONDS", 0.0)


async def run_some(directory: Path, rule: str, *first: str, **group: Any) -> None:
    chance = seeded(f"{rule} {first}")
    for number in range(ROUNDS):
        await run_history(directory / str(number), RULES[rule], chance, len(first) + MORE_FAULTS, first, **group)


@BY_RULE
async def test_two_of_five_controllers_are_lost_and_then_the_master(tmp_path: Path, rule: str) -> None:
    await run_some(tmp_path, rule, "controllers_stop", controllers=5)


@BY_RULE
async def test_one_of_five_controllers_is_replaced_and_needed_at_once(tmp_path: Path, rule: str) -> None:
    await run_some(tmp_path, rule, "controller_is_replaced", controllers=5)


@pytest.mark.soak  # its group has four replicas, which cost more than a test of the default tier has
@BY_RULE
async def test_an_observer_is_promoted_while_the_master_is_lost(tmp_path: Path, rule: str) -> None:
    await run_some(tmp_path, rule, "observer_is_promoted", "master_crashes", observers=1)


@BY_RULE
async def test_what_a_slave_of_the_own_zone_shows_is_confirmed(tmp_path: Path, rule: str) -> None:
    """It shows no message that the next master lacks, none twice, and no hole, whoever becomes master."""
    await run_some(tmp_path, rule, "master_crashes", "masters_crash_in_turn", zone="zone-3")
