"""The plan of a rolling restart, and what is taken for well: no deployment is needed for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deploy.health import broker_problems
from deploy.plan import Part, PlanError, read_plan
from deploy.rolling import RollingError, main, run_command

GATEWAY = '[[part]]\nrole = "gateway"\naddress = "http://127.0.0.1:1"\nrestart = "true"\n'
BROKER = '[[part]]\nrole = "broker"\naddress = "127.0.0.1:1"\nrestart = "true"\n'


def written(directory: Path, text: str) -> Path:
    path = directory / "plan.toml"
    path.write_text(text)
    return path


def test_a_plan_names_every_part(tmp_path: Path) -> None:
    broker = f'{BROKER}broker = "broker-0"\nreplica = 1\n'
    plan = read_plan(written(tmp_path, f'{broker}{GATEWAY}[cluster]\nname = "plant"\n'))
    assert [part.name for part in plan.part] == ["broker-0, replica 1", "gateway http://127.0.0.1:1"]
    assert plan.cluster.name == "plant"
    assert not plan.is_controlled


def test_a_plan_as_editors_save_it(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    text = f'{BROKER}broker = "b"\n{GATEWAY}'
    path.write_text(text, encoding="utf-8-sig")
    assert len(read_plan(path).part) == 2
    path.write_text(text, encoding="utf-16")
    with pytest.raises(PlanError, match="it is UTF-16"):
        read_plan(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("part = 1", "Expected `array`"),
        ("[[part", "Expected"),
        (f"{GATEWAY}old = 1", "unknown field `old`"),
        (f'{BROKER}broker = "b"', "it has no gateway"),
        (f"{GATEWAY}{BROKER}", "needs its name"),
        (f'{GATEWAY}{BROKER}broker = "b"\n{BROKER}broker = "b"', "the replicas of b need different numbers"),
        (GATEWAY.replace("http://", ""), "is the URL of its HTTP door"),
        (f"{GATEWAY}controller = true", "controller = true is for name servers"),
        (GATEWAY.replace('restart = "true"', ""), "has no command"),
    ],
)
def test_a_plan_that_cannot_be_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(PlanError, match=problem):
        read_plan(path)
    assert main([str(path)]) == 2
    assert problem in capsys.readouterr().err


def test_nothing_is_restarted_where_something_is_not_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mark = tmp_path / "restarted"
    path = written(tmp_path, GATEWAY.replace('"true"', f'"touch {mark}"'))
    assert main(["--check", str(path)]) == 1
    assert main(["--patience", "0", str(path)]) == 1
    told = capsys.readouterr().err
    assert "not well before anything is restarted: gateway http://127.0.0.1:1: cannot reach" in told
    assert "0 were restarted; left: gateway http://127.0.0.1:1" in told
    assert not mark.exists()


def replica(number: int, **more: Any) -> dict[str, Any]:
    well = {"role": "slave", "problem": None, "isInSync": True, "isObserver": False, "behindSeconds": 0.0}
    return {"replica": number, **well, **more}


@pytest.mark.parametrize(
    ("replicas", "problems"),
    [
        ([replica(1, role="master"), replica(2)], []),
        ([replica(1, role="master"), replica(2, isInSync=False, isObserver=True)], []),
        ([replica(1, role="master"), replica(2, isInSync=False)], ["replica 2: it is not in sync"]),
        ([replica(1, role="master"), replica(2, behindSeconds=2.5)], ["replica 2: it is 2.5 s behind"]),
        ([replica(1, role="master"), replica(2, behindSeconds=None)], ["replica 2: its lag is not known yet"]),
        ([replica(1, role="master"), replica(2, problem="it waits")], ["replica 2: it waits"]),
        ([replica(1, role="nobody"), replica(2)], ["replica 1: it is nobody", "it has 0 masters"]),
        ([replica(1, role="master")], ["there is no replica 2"]),
    ],
)
def test_a_broker_is_well_when_all_its_replicas_are(replicas: list[dict[str, Any]], problems: list[str]) -> None:
    parts = [Part(role="broker", address=f"host{number}:1", broker="b", replica=number) for number in (1, 2)]
    assert broker_problems({"isAvailable": True, "problem": None, "replicas": replicas}, parts) == problems


def test_a_broker_without_replicas_is_well_when_it_is_there() -> None:
    part = Part(role="broker", address="host:1", broker="b")
    assert broker_problems({"isAvailable": True, "problem": None, "replicas": []}, [part]) == []
    assert broker_problems({"isAvailable": False, "problem": "it is gone", "replicas": []}, [part]) == ["it is gone"]


def test_a_command_that_fails_ends_it(capfd: pytest.CaptureFixture[str]) -> None:
    part = Part(role="nameserver", address="host:1", restart="echo restarted; exit 3")
    with pytest.raises(RollingError, match="the command for nameserver host:1 ended with 3"):
        run_command(part)
    assert capfd.readouterr().out == "restarted\n"
