"""Real replicas under load, whose masters are lost by a seed: the history is one that the store promises."""

from __future__ import annotations

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
FORGOTTEN = 3
"""Records with settlements that no replica applies."""


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
    change = Progress.change
    forgotten: set[int] = set()

    def forgetful(progress: Progress, op: int, *others: Any) -> None:
        """Forget the same records at all replicas: they would fail on what others have, and others not."""
        *_, commit_log_offset, _ = others
        if op == ConsumptionOp.SETTLE and (len(forgotten) < FORGOTTEN or commit_log_offset in forgotten):
            forgotten.add(commit_log_offset)
        else:
            change(progress, op, *others)

    monkeypatch.setattr(Progress, "change", forgetful)
    with pytest.raises(AssertionError, match=r"acknowledged and popped|all replicas have everything"):
        await run_history(tmp_path / "history", RULES["2-3"], seeded("forgetful"), 0)
