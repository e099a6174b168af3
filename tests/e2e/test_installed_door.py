"""A door of an installed package: settings, listener, rights, metrics and drain, by one entry point."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from entrepot.gateway.cli.app import run
from tests.support.waiting import PATIENCE_SECONDS, wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "lines_door"
COMMAND = (sys.executable, "-c", "from entrepot.gateway.cli.app import main; main()")
ROOT = ("root", "secret-of-root")
OTHERS_CLOSED = ("mqtt.enabled=false", "amqp.enabled=false", "grpc.enabled=false")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The example as pip installs it."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    told = tmp_path / "site" / "entrepot_lines-1.0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: entrepot-lines\nVersion: 1.0\n")
    [(group, entries)] = project["project"]["entry-points"].items()
    (told / "entry_points.txt").write_text(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()))
    for module in project["tool"]["setuptools"]["py-modules"]:
        (tmp_path / "site" / f"{module}.py").write_text((EXAMPLE / f"{module}.py").read_text())
    return tmp_path / "site"


def started(site: Path, directory: Path, *flags: str) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ENTREPOT__")}
    environment["PYTHONPATH"] = f"{site}:{os.getcwd()}"
    asked = ("serve", "--free-ports", "--data-dir", f"{directory}/data", "--ready-file", f"{directory}/ready")
    return subprocess.Popen(
        (*COMMAND, *asked, *flags), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@contextmanager
def serving(site: Path, directory: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    flags = ("security.initial_admin=root", "mqtt.enabled=false", "amqp.enabled=false", "grpc.enabled=false")
    (directory / "password").write_text(ROOT[1])
    settings = [
        part
        for flag in (*flags, f"security.initial_admin_password_file={directory}/password")
        for part in ("--set", flag)
    ]
    process = started(site, directory, *settings)
    try:
        ready = directory / "ready"
        wait_until(lambda: ready.exists() or process.poll() is not None, "it is ready", 2 * PATIENCE_SECONDS)
        assert process.poll() is None, process.communicate()[0]
        yield process, json.loads(ready.read_text())
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def running(site: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    with serving(site, tmp_path) as found:
        yield found


class Lines:
    """A client."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), PATIENCE_SECONDS)
        self._answers = self._socket.makefile("r")
        self.name = "{}:{}".format(*self._socket.getsockname())

    def ask(self, line: str) -> str:
        self._socket.sendall(f"{line}\n".encode())
        return self.hear()

    def hear(self) -> str:
        return self._answers.readline().strip()


def test_a_door_of_an_installed_package_is_a_door_like_the_own_ones(
    running: tuple[subprocess.Popen[str], dict[str, str]],
) -> None:
    process, addresses = running
    client = httpx2.Client(base_url=f"http://{addresses['http']}", auth=ROOT, timeout=PATIENCE_SECONDS)
    client.put("/api/v1/users/ann", json={"password": "ann"}).raise_for_status()
    statement = {"effect": "ALLOW", "actions": ["PUB"], "resources": ["Topic:factory"]}
    client.put("/api/v1/acls/ann", json={"statements": [statement]}).raise_for_status()
    lines = Lines(addresses["lines"])
    assert lines.ask("PUB factory early") == "NO LOGIN comes first"
    assert lines.ask("LOGIN ann wrong").startswith("NO")
    assert lines.ask("LOGIN ann ann") == "OK"
    assert lines.ask("PUB factory hello there") == "OK"
    assert lines.ask("PUB office hello").startswith("NO"), "no right on that"
    pull = client.post("/topics/factory/eventsubscriptions/g:receive?maxWaitTime=5").json()
    assert [each["event"]["data"] for each in pull["value"]] == ["hello there"]
    metrics = client.get("/metrics").text
    assert "entrepot_lines_publishes_total 1.0" in metrics
    assert 'entrepot_connections{door="lines"} 1.0' in metrics
    settings = {row["key"]: row["value"] for row in client.get("/api/v1/settings").json()["value"]}
    assert settings["lines.port"] == 7000
    process.send_signal(signal.SIGTERM)
    assert lines.hear() == "BYE"
    assert process.wait(PATIENCE_SECONDS) == 0


def test_its_clients_are_shown_and_disconnected_like_those_of_all(
    running: tuple[subprocess.Popen[str], dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, addresses = running
    client = httpx2.Client(base_url=f"http://{addresses['http']}/api/v1", auth=ROOT, timeout=PATIENCE_SECONDS)
    ann, nobody = Lines(addresses["lines"]), Lines(addresses["lines"])
    assert ann.ask(f"LOGIN {' '.join(ROOT)}") == "OK"
    assert nobody.ask("PUB factory early") == "NO LOGIN comes first"

    rows = client.get("/connected-clients").json()["value"]
    users = {ann.name: "root", nobody.name: None}
    assert [(each["door"], each["id"], each["user"]) for each in rows] == [
        ("lines", name, users[name]) for name in sorted(users)
    ]
    assert all((each["address"], each["uses"], each["held"]) == (each["id"], [], None) for each in rows)
    assert all(each["connectedSince"] for each in rows)
    [own] = client.get("/connected-clients?door=lines&user=root").json()["value"]
    assert own["id"] == ann.name
    assert client.get("/connected-clients?door=mqtt").json()["value"] == []
    page = client.get("/connected-clients?limit=1").json()
    rest = client.get("/connected-clients", params={"limit": 1, "after": page["next"]}).json()
    assert [each["id"] for each in page["value"] + rest["value"]] == [each["id"] for each in rows]
    doors = {each["door"]: each for each in client.get("/overview").json()["doors"]}
    assert doors["lines"]["connections"] == 2

    wanted = {"clients": [{"door": "lines", "id": nobody.name}, {"door": "http", "id": "x"}], "reason": "a test"}
    [first, second] = client.post("/connected-clients:disconnect", json=wanted).json()["value"]
    assert (first["disconnected"], second["disconnected"]) == (True, False)
    assert second["error"]["message"] == "the door 'http' disconnects no clients"
    assert nobody.hear() == "BYE a test"
    [entry] = client.get("/audit?event=client disconnected").json()["value"]
    assert entry["resource"] == f"lines client {nobody.name}"

    monkeypatch.setenv("ENTREPOT_USER", ROOT[0])
    monkeypatch.setenv("ENTREPOT_PASSWORD", ROOT[1])
    server = ("--server", f"http://{addresses['http']}")
    assert run(["client", "list", "--all", *server]) == 0
    assert ann.name in capsys.readouterr().out
    assert run(["client", "kick", "--door", "lines", ann.name, *server]) == 0
    assert ann.hear().startswith("BYE ")


def test_its_settings_are_checked_like_all(site: Path, tmp_path: Path) -> None:
    process = started(site, tmp_path, "--set", "lines.prot=1")
    text, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 2
    assert "unknown setting 'lines.prot'" in text
    assert "did you mean 'lines.port'?" in text


def test_a_package_that_cannot_be_used_is_told_in_a_sentence(site: Path, tmp_path: Path) -> None:
    (site / "entrepot_lines.py").write_text("import a_library_that_is_not_there")
    process = started(site, tmp_path)
    text, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 2
    assert "the door 'lines' of an installed package (entrepot_lines:DOOR) cannot be used: No module named" in text


def test_a_program_may_import_the_package_first(site: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{site}:{os.getcwd()}"}
    code = "import entrepot_lines; from entrepot.gateway.settings import load_settings; print(load_settings().rows())"
    done = subprocess.run((sys.executable, "-c", code), env=environment, capture_output=True, text=True, check=False)
    assert "lines.port" in done.stdout, done.stderr


@pytest.mark.parametrize("name", ["events", "ws", "mqtt", "lines"])
def test_a_name_that_is_taken_is_refused(site: Path, tmp_path: Path, name: str) -> None:
    """`lines`: by another package."""
    other = site / "other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[entrepot.doors]\nother = other_door:DOOR\n")
    made = f'from entrepot.gateway.door.kind import DoorKind\nDOOR = DoorKind("{name}", "other_door:Door")\n'
    (site / "other_door.py").write_text(made)
    process = started(site, tmp_path)
    text, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 2
    assert f"{name!r} is the name of another door, listener or section" in text
