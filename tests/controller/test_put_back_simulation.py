"""Seeded histories in which disks are put back to snapshots of their present run; and the fault that they find."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from entrepot.broker.controller.clocks import OffClocks
from entrepot.broker.controller.contest import Contest
from entrepot.broker.controller.elections import Elections
from entrepot.domain.replication.lost_ends import KnownLogs
from entrepot.domain.replication.mastership import Appointment
from tests.controller.histories import run_history, told_histories
from tests.controller.simulated_controllers import ControlledGroup, PlantedFaults
from tests.controller.test_planted_faults import with_elections
from tests.replication.histories import RULES
from tests.simulation.histories import find
from tests.tiers.marks import scaled, soak_only

HISTORIES = scaled(12, 3_000)
MOST_HISTORIES = 5_000


def put_back(group: ControlledGroup) -> int:
    assert group.put_backs is not None
    return group.put_backs.found


@pytest.mark.failure_also("A replica's disk is put back to a snapshot, and no other replica is there")
@pytest.mark.scaled
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rule", RULES)
def test_a_disk_that_is_put_back_loses_nothing(rule: str) -> None:
    groups = told_histories("histories with disks put back", rule, HISTORIES, 2_000_003, put_back, puts_back=True)
    done = sum(map(put_back, groups))
    assert done or rule == "3-3" or HISTORIES < 100, "disks are put back that lack what was confirmed"


class ElectsWhoAnswers(Elections):
    """Nobody remembers what a log had."""

    class _Forgetful(Contest):
        def decide(
            self, latest: Appointment, counting: Collection[int], off: OffClocks, known: KnownLogs | None = None
        ) -> Appointment:
            return super().decide(latest, counting, off)

    contest_type = _Forgetful


@pytest.mark.scaled
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rule", [soak_only("2-2"), soak_only("2-3")])
def test_an_election_of_a_disk_that_was_put_back_is_found(rule: str) -> None:
    planted = PlantedFaults(controller=with_elections(ElectsWhoAnswers))
    find(f"put back {rule}", lambda seed: run_history(seed, rule, planted, puts_back=True), MOST_HISTORIES)
