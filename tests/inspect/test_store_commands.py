"""`entrepot store dump` and `rows`, and how the commands refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.store.record import RecordKind
from entrepot.gateway.cli import commands
from entrepot.gateway.cli.app import run
from tests.inspect import full_store
from tests.inspect.looking import a_queue_file, cut, look, report_of
from tests.support.clock import ManualClock

ROOT = Path(__file__).resolve().parents[2]


# -- dump and rows -----------------------------------------------------------------------------------------------------


def dumped(directory: Path, *arguments: str) -> list[dict[str, Any]]:
    code, out, _ = look(directory, "dump", "--json", *arguments)
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


def test_dump_shows_every_record(clean: Path):
    records = dumped(clean)
    assert len(records) == report_of(clean)["log"]["records"]
    assert not any("unreadable" in record or "gap" in record for record in records)
    assert {record["kind"] for record in records} == {k.name.lower().replace("_", "-") for k in RecordKind}
    consumption = [record for record in records if record["kind"] == "consumption"]
    by_op = {op["op"]: op for record in consumption for op in record.get("ops", [record])}
    assert by_op["deliver"]["group"]
    assert by_op["attempt"]["attemptId"] == "try-1"
    [first, *_] = [r for r in records if r.get("keys") == ["order-0"] and r["kind"] == "message"]
    assert (first["topic"], first["queue"], first["queueOffset"], first["tag"]) == ("orders", 0, 0, "even")
    assert first["further"] == [{"topic": "copies", "queue": 0, "queueOffset": 0}]
    assert first["properties"] == [["number", "0"]]
    assert "body" not in first
    assert any(r.get("change", {}).get("op") == "drop_topic" for r in records)
    assert any(r.get("changes", {}).get("session/1") for r in records)
    assert any(r["kind"] == "pending" and r["op"] == "drop" for r in records)


def test_dump_of_some(clean: Path):
    everything = dumped(clean)
    some = dumped(clean, "--topic", "copies", "--kind", "message", "--limit", "3")
    assert [[p["queueOffset"] for p in r["further"]] for r in some] == [[0], [1], [2]]
    low, high = everything[10]["offset"], everything[20]["offset"]
    assert dumped(clean, "--from", str(low), "--to", str(high)) == everything[10:20]
    assert dumped(clean, "--from", str(low + 1), "--limit", "1") == everything[11:12]
    assert {r["queue"] for r in dumped(clean, "--topic", "orders", "--queue", "1", "--kind", "message")} == {1}
    assert "body" in dumped(clean, "--kind", "message", "--limit", "1", "--bodies")[0]


def test_dump_for_people(clean: Path):
    code, out, _ = look(clean, "dump", "--limit", "200")
    assert code == 0
    assert len(out.splitlines()) == 200
    assert "orders/0/0" in out


def test_rows(clean: Path):
    code, out, _ = look(clean, "rows", "--json")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == report_of(clean)["state"]["rows"]
    assert not any("unreadable" in row for row in rows)
    code, out, _ = look(clean, "rows", "--kind", "q,w")
    assert code == 0
    assert "queue orders/1 " in out
    assert "window workers on orders/0 " in out
    assert "topic" not in {line.split()[0] for line in out.splitlines()}


def test_secrets_are_not_shown(clean: Path):
    key = json.loads((clean / "store.json").read_text())["handle_key"]
    for command in (("verify", "--json"), ("dump", "--bodies"), ("rows",)):
        assert key not in look(clean, *command)[1]


# -- wrong usage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["verify", "dump", "rows"])
async def test_a_directory_in_use_is_refused(tmp_path: Path, command: str):
    store = await Broker.open(full_store.settings_of(tmp_path / "data"), ManualClock())
    code, out, err = look(tmp_path / "data", command)
    await store.close()
    assert (code, out) == (2, "")
    assert (
        err == f"entrepot: the data directory {tmp_path / 'data'} is in use by process {os.getpid()}: stop it first\n"
    )
    assert look(tmp_path / "data", command)[0] == 0


@pytest.mark.parametrize("command", ["verify", "dump", "rows"])
def test_what_is_no_data_directory_is_refused(tmp_path: Path, command: str):
    (tmp_path / "file").write_text("?")
    for path in (tmp_path, tmp_path / "nothing"):
        code, out, err = look(path, command)
        assert (code, out) == (2, "")
        assert err.startswith("entrepot: ")
    assert not (tmp_path / "lock").exists()


def test_unknown_kinds_are_refused(clean: Path):
    assert look(clean, "dump", "--kind", "message,other")[0] == 2
    assert look(clean, "rows", "--kind", "z")[0] == 2


def test_another_format_is_refused(directory: Path):
    identity = json.loads((directory / "store.json").read_text())
    (directory / "store.json").write_text(json.dumps(identity | {"format": 99}))
    code, _, err = look(directory, "verify")
    assert code == 2
    assert "format 99" in err


def test_it_is_a_command_of_entrepot():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["entrepot.commands"]["store"] == "entrepot.broker.cli.commands:app"


def test_on_the_command_line_of_the_gateway(directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    point = EntryPoint("store", "entrepot.broker.cli.commands:app", "entrepot.commands")
    monkeypatch.setattr(commands, "entry_points", lambda group: [point])
    assert run(["store", "verify", "--data-dir", str(directory)]) == 0
    assert capsys.readouterr().out.endswith("healthy\n")
    cut(a_queue_file(directory), 0)
    assert run(["store", "verify", "--data-dir", str(directory)]) == 1
    assert run(["store", "verify"]) == 2
    assert run(["store", "dump", "--data-dir", str(directory), "--kind", "other"]) == 2
    assert run(["store", "rows", "--data-dir", str(directory / "nothing")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_as_a_process(directory: Path):
    command = [sys.executable, "-m", "entrepot.broker.cli.commands", "verify", "--data-dir", str(directory)]
    for plant, code in ((lambda: None, 0), (lambda: cut(a_queue_file(directory), 0), 1)):
        plant()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (code, "")
