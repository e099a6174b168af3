"""`make profile`: what it may be asked for, and the form of its tables.  What it measures is no test's matter."""

from __future__ import annotations

import cProfile
import subprocess
from pathlib import Path

import pytest

from benchmarks import profiled
from entrepot.domain.routing.topic_filter import is_valid_filter
from entrepot.gateway.settings import listeners

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["mqtt", "amqp"], ["mqtt", "--only", "pull"]])
def test_what_is_no_workload_is_refused_with_the_names(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        profiled.main(arguments)
    assert refused.value.code == 2
    told = capsys.readouterr().err
    assert "make profile WORK=mqtt" in told
    if len(arguments) < 2:
        assert all(name in told for name in profiled.WORKS), told


def test_each_workload_ends_and_has_a_listener() -> None:
    assert list(profiled.WORKS) == ["mqtt", "amqp", "http", "remote", "engine"]
    for name, work in profiled.WORKS.items():
        assert work.door in listeners(), name
        assert "--duration" in work.arguments, name


def test_make_asks_for_the_workload() -> None:
    told = subprocess.run(
        ["make", "--no-print-directory", "-n", "profile", "WORK=remote"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.rstrip().endswith("-m benchmarks.profiled remote")


def test_a_table_names_functions_by_their_place_in_the_project(tmp_path: Path) -> None:
    profiler = cProfile.Profile()
    profiler.runcall(is_valid_filter, "a/+/b")
    profiler.dump_stats(tmp_path / "a.pstats")
    table = profiled.table(tmp_path / "a.pstats", "tottime", 10)
    assert " domain/routing/topic_filter.py:" in table
    assert str(ROOT) not in table
