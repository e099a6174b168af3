"""`entrepot cluster backup`: waits for all brokers, and calls nothing saved that is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from entrepot.gateway.cli import cluster_backup
from entrepot.gateway.cli.app import run

BEGAN = "2026-11-30T01:00:00Z"


def state(name: str, **others: Any) -> dict[str, Any]:
    return {
        "broker": name,
        "place": "/backup",
        "began": BEGAN,
        "isRunning": False,
        "from": 0,
        "to": 4096,
        "taken": "2026-11-30T01:00:09Z",
        "copiedBytes": 4096,
        "key": None,
        "problem": None,
        **others,
    }


class Server:
    """A gateway in the place of the client: each look at a broker gives the next of its states."""

    def __init__(self, **looks: list[dict[str, Any]]) -> None:
        self.looks, self.asked = looks, list[str]()

    def __call__(self, server: str) -> Server:
        return self

    def get(self, path: str) -> Any:
        if path == "/api/v1/brokers":
            return {"value": [{"name": name} for name in self.looks]}
        return self.looks[path.split("/")[-2]].pop(0)

    def request(self, method: str, path: str) -> Any:
        name = path.split("/")[-1].removesuffix(":backup")
        self.asked.append(name)
        return state(name, isRunning=True, taken=None)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_backup, "POLL_SECONDS", 0.0)


def commanded(monkeypatch: pytest.MonkeyPatch, server: Server, *arguments: str) -> int:
    monkeypatch.setattr(cluster_backup, "Client", server)
    return run(["cluster", "backup", *arguments])


def test_it_waits_for_all_and_tells_what_is_between(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    late = state("b", taken="2026-11-30T01:02:00Z", key="5f1c")
    server = Server(a=[state("a")], b=[state("b", isRunning=True), late])
    assert commanded(monkeypatch, server) == 0
    told = capsys.readouterr().out
    assert "broker a: the log from 0 to 4096 is in /backup since 2026-11-30T01:00:09Z: 4096 bytes were copied" in told
    assert "encrypted by the key 5f1c" in told
    assert "broker a was saved 111 s before broker b" in told
    assert server.asked == ["a", "b"]


def test_some_brokers_alone_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    server = Server(a=[], b=[state("b")])
    assert commanded(monkeypatch, server, "b", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"value": [state("b")], "between": []}
    assert server.asked == ["b"]


@pytest.mark.parametrize("began", [None, "2026-11-30T01:00:05Z"])
def test_a_run_that_is_known_no_more_was_broken_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], began: str | None
) -> None:
    """The broker began anew, or has another master, which knows of no run, or of a later one."""
    server = Server(a=[state("a", began=began, taken=None)])
    assert commanded(monkeypatch, server) == 1
    told = capsys.readouterr()
    assert "has another master: ask again" in told.out and "the backup of a failed" in told.err


def test_a_failure_is_told_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server(a=[state("a", taken=None, problem="the disk is full")], b=[state("b")])
    assert commanded(monkeypatch, server) == 1
    told = capsys.readouterr()
    assert "broker a: the disk is full" in told.out and "broker b: the log from 0" in told.out


def test_it_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    server = Server(a=[state("a", isRunning=True)] * 9)
    assert commanded(monkeypatch, server, "--timeout", "0") == 1
    assert "after 0 s these are not saved yet: a" in capsys.readouterr().err
