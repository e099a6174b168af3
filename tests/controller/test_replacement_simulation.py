"""Seeded histories in which controllers are replaced while others are away; and the fault that they find."""

from __future__ import annotations

import pytest

from tests.controller.histories import run_history, told_histories
from tests.controller.simulated_controllers import ControlledGroup, PlantedFaults
from tests.replication.histories import RULES
from tests.simulation.histories import find
from tests.tiers.marks import scaled

HISTORIES = scaled(8, 3_000)
MOST_HISTORIES = 1_000


def asked_for(group: ControlledGroup) -> int:
    assert group.replacements is not None
    return group.replacements.asked


@pytest.mark.scaled
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rule", RULES)
def test_failover_goes_on_with_other_controllers(rule: str) -> None:
    found = told_histories("histories with controllers replaced", rule, HISTORIES, 4_000_037, asked_for, replaces=True)
    replacements = [group.replacements for group in found]
    asked, done = sum(each.asked for each in replacements if each), sum(each.done for each in replacements if each)
    assert asked > HISTORIES, "an operator replaces controllers"
    assert done > HISTORIES, "the old ones end"


@pytest.mark.scaled
@pytest.mark.timeout(900)
def test_replicas_that_learn_no_controllers_are_found() -> None:
    """Once the first three are gone nobody elects any more."""
    planted = PlantedFaults(learns_controllers=False)
    find("learns nothing ", lambda seed: run_history(seed, "2-3", planted, replaces=True), MOST_HISTORIES)
