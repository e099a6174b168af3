"""Decisions of the tiers' programs: the second try of CI, the rounds of soak, the words for what moved."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.tiers import coverage_by_room, second_try, soak
from tests.tiers import slice as slices
from tests.tiers.moves import compare, words
from tests.tiers.run import ROOT

PASSED, FAILED = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED
FAILING = ["tests/a.py::test_x[1]@cluster", "tests/b.py::test_y"]


class Runs:
    """Stands for pytest: answers with codes, and notes failures in its cache as pytest does."""

    failing = FAILING

    def __init__(self, *codes: int) -> None:
        self.codes, self.flags = list(codes), list[tuple[str, ...]]()
        self.environments: list[dict[str, str]] = []

    def __call__(self, *flags: str, workers: int, environment: dict[str, str] | None = None) -> int:
        self.flags.append(flags)
        self.environments.append(environment or {})
        for flag in flags:
            if flag.startswith("cache_dir="):
                noted = Path(flag.removeprefix("cache_dir=")) / "v" / "cache"
                noted.mkdir(parents=True, exist_ok=True)
                (noted / "lastfailed").write_text(json.dumps(dict.fromkeys(self.failing, True)))
        return self.codes.pop(0)


def run_slice(monkeypatch: pytest.MonkeyPatch, runs: Runs, seconds: str = "300") -> int:
    monkeypatch.setattr(second_try, "run_pytest", runs)
    monkeypatch.setattr("sys.argv", ["slice", "--order", "c0ffee", "--seconds", seconds])
    return slices.main()


def test_a_slice_that_passes_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(PASSED)
    assert run_slice(monkeypatch, runs) == PASSED
    assert runs.flags[0][-4:] == ("--order", "c0ffee", "--for-seconds", "300.0")


def test_what_passes_alone_is_told_and_no_failure(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    runs = Runs(FAILED, PASSED)
    assert run_slice(monkeypatch, runs) == PASSED
    assert runs.flags[1][-2:] == ("tests/a.py::test_x[1]", "tests/b.py::test_y")
    assert capsys.readouterr().out.splitlines()[-2:] == ["  tests/a.py::test_x[1]", "  tests/b.py::test_y"]


def test_what_fails_twice_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_slice(monkeypatch, Runs(FAILED, FAILED)) == FAILED


def test_a_run_that_is_no_run_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_slice(monkeypatch, Runs(4)) == 4


def test_the_default_tier_has_a_second_try(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs, note = Runs(FAILED, PASSED), tmp_path / "note"
    note.write_text("before\n")
    monkeypatch.setattr(second_try, "run_pytest", runs)
    given = ["--note", str(note), "--tier", "default", "-n", "3", "--dist", "loadgroup"]
    monkeypatch.setattr("sys.argv", ["second_try", *given])
    assert second_try.main() == PASSED
    assert [flags[:2] for flags in runs.flags] == [("--tier", "default")] * 2
    assert note.read_text().splitlines() == ["before", "tests/a.py::test_x[1]", "tests/b.py::test_y"]


def test_many_failures_are_no_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(FAILED)
    runs.failing = [f"tests/a.py::test_{number}" for number in range(second_try.MAX_TRIED_AGAIN + 1)]
    assert run_slice(monkeypatch, runs) == FAILED


def test_without_time_there_is_no_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_slice(monkeypatch, Runs(), "59") == 0


def test_each_round_has_a_seed_and_the_failed_ones_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = Runs(PASSED, FAILED, PASSED)
    monkeypatch.setattr(soak, "run_pytest", runs)
    times = iter([0.0, 0.0, 1.0, 1.0, 2.0, 10.0])
    monkeypatch.setattr(soak, "time", SimpleNamespace(monotonic=lambda: next(times)))  # others ask the real one
    failed = soak._rounds(10.0, None, 3, [], tmp_path / "figures")
    seeds = [each["ENTREPOT_TEST_SEED"] for each in runs.environments]
    assert len(set(seeds)) == 3
    assert failed == [int(seeds[1])]
    assert all(f"--hypothesis-seed={seed}" in flags for seed, flags in zip(seeds, runs.flags, strict=True))


def test_a_seed_repeats_one_round(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = Runs(FAILED)
    monkeypatch.setattr(soak, "run_pytest", runs)
    assert soak._rounds(0.0, 77, 3, [], tmp_path / "figures") == [77]
    assert "--for-seconds" not in runs.flags[0]


def test_every_test_of_before_has_a_place_now() -> None:
    before = Counter(
        {
            "a.py::test_same": 2,
            "a.py::test_folded": 9,
            "a.py::test_moved": 1,
            "a.py::test_told": 3,
            "a.py::test_lost": 1,
        }
    )
    now = {
        "a.py::test_same": Counter(default=2),
        "a.py::test_folded": Counter(default=9, soak=9),
        "b.py::test_moved": Counter(interop=1),
        "c.py::test_all": Counter(default=4),
    }
    told = words("a.py::test_told -> c.py::test_all : one loop has all of them\n")
    lines, lost = compare(before, now, told)
    assert lines == [
        "a.py::test_folded: 9 -> default 9, soak 9",
        "a.py::test_moved: 1 -> b.py::test_moved: interop 1",
        "a.py::test_told: 3 -> c.py::test_all (one loop has all of them)",
    ]
    assert lost == ["a.py::test_lost"]


def test_a_word_for_what_is_not_there_is_none() -> None:
    _, lost = compare(Counter({"a.py::test_x": 1}), {}, words("a.py::test_x -> b.py::test_y : why"))
    assert lost == ["a.py::test_x: 1 -> b.py::test_y (why): not there"]


def test_files_are_counted_by_room_and_together() -> None:
    def counts(*numbers: int) -> dict[str, int]:
        return dict(zip(("num_statements", "covered_lines", "num_branches", "covered_branches"), numbers, strict=True))

    files = {
        "gateway/mqtt/a.py": counts(1000, 500, 10, 1),
        "gateway/mqtt/fan_out/b.py": counts(1000, 1000, 10, 10),
        "gateway/app.py": counts(3, 0, 0, 0),
    }
    assert coverage_by_room.table(coverage_by_room.by_room(files)).splitlines() == [
        "room          statements     run  branches   taken",
        "gateway                3    0.0%         0       -",
        "gateway/mqtt       2,000   75.0%        20   55.0%",
        "all                2,003   74.9%        20   55.0%",
    ]


def test_each_room_of_the_product_is_measured() -> None:
    measured = tomllib.loads(coverage_by_room.CONFIGURATION.read_text())["tool"]["coverage"]["run"]["source"]
    rooms = {link.name for link in (ROOT / "entrepot").iterdir() if link.is_symlink()}
    assert set(measured) == rooms
