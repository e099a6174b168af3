"""The checker finds what it is there for, and takes what a store may do: models of stores with a fault, and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.history.checker import check, main, report
from tests.history.model_histories import run_history
from tests.history.model_store import ModelStore
from tests.history.operations import load, save
from tests.history.planted_faults import FAULTS
from tests.support.seed import seeded
from tests.support.soak_table import tell
from tests.tiers.marks import scaled

PARTS = 6
HISTORIES = scaled(60, 800)
MOST_HISTORIES = 100


@pytest.mark.scaled
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_histories_of_a_sound_store_are_allowed(part: int, tmp_path: Path) -> None:
    chance, operations = seeded(f"sound {part}"), 0
    for _ in range(HISTORIES):
        seed = chance.getrandbits(32)
        history = run_history(seed)
        operations += len(history)
        if violations := check(history):
            save(tmp_path / "history", history)
            raise AssertionError(f"history {seed}: {report(violations, tmp_path / 'history')}")
    tell("model histories", rounds=HISTORIES, messages=operations)


@pytest.mark.scaled
@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_a_planted_fault_is_found(kind: type[ModelStore]) -> None:
    chance = seeded(kind.__name__)
    for number in range(MOST_HISTORIES):
        seed = chance.getrandbits(32)
        rules = {violation.rule for violation in check(run_history(seed, kind))}
        if rules & FAULTS[kind]:
            print(f"found in history {number + 1}, of seed {seed}: {sorted(rules)}")
            return
    raise AssertionError(f"{kind.__name__} is not found in {MOST_HISTORIES} histories")


def test_a_history_is_replayed_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sound, corrupted = run_history(1), run_history(1, next(iter(FAULTS)))
    for history, code, said in ((sound, 0, "all of them allowed"), (corrupted, 1, "violations in")):
        file = tmp_path / f"history-{code}"
        save(file, history)
        assert load(file) == history
        monkeypatch.setattr("sys.argv", ["checker", str(file)])
        assert main() == code
        assert said in capsys.readouterr().out
