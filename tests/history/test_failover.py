"""Real replicas under load, whose masters are lost by a seed: the history is one that the store promises."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from entrepot.broker.consume.consumption_op import ConsumptionOp
from entrepot.broker.consume.progress import Progress
from tests.history.lost_masters import RULES, run_history
from tests.support.brokers.quick_brokers import work_often
from tests.support.seed import seeded
from tests.tiers.marks import scaled

ROUNDS = scaled(1, 12)
FAULTS = scaled(2, 8)
FORGOTTEN = 9
"""Settlements, of all replicas together."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker does by itself is done often."""
    work_often(monkeypatch)


@pytest.mark.scaled
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rule", RULES)
async def test_a_history_through_lost_masters_is_allowed(tmp_path: Path, rule: str) -> None:
    chance = seeded(rule)
    for number in range(ROUNDS):
        await run_history(tmp_path / str(number), RULES[rule], chance, FAULTS)


async def test_replicas_that_forget_acknowledgements_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker sees a fault of the real thing, too."""
    change, settled = Progress.change, count()

    def forgetful(progress: Progress, op: int, *others: Any) -> None:
        if op != ConsumptionOp.SETTLE or next(settled) >= FORGOTTEN:
            change(progress, op, *others)

    monkeypatch.setattr(Progress, "change", forgetful)
    with pytest.raises(AssertionError, match=r"acknowledged and popped|all replicas have everything"):
        await run_history(tmp_path / "history", RULES["2-3"], seeded("forgetful"), 0)
