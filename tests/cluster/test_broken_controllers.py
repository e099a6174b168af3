"""A controller in a name server whose files are broken: the name server goes on, and everybody is told why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.gateway.cli.app import run
from tests.support.doors.load import door, event_headers
from tests.support.processes.deployment import GatewayProcess, NameServerProcess
from tests.support.processes.replicated_processes import ReplicatedProcesses
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster")
FILES = {
    "controller.json": "controller.json cannot be read",
    "raft/state": "the files of member 1 are damaged",
    "raft/log": "the files of member 1 are damaged",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedProcesses]:
    with ReplicatedProcesses(tmp_path_factory.mktemp("broken"), "2-3", replicas=3, controllers=3) as running:
        running.wait_in_sync(3)
        yield running


def break_file(directory: Path, name: str) -> None:
    """Bytes that nobody wrote: at the end of a file, or within it where its end may be missing after any crash."""
    [path] = directory.glob(f"{name}*")
    whole = path.read_bytes()
    third = len(whole) // 3
    rest = whole[third + 8 :] if "log" in name else b""
    path.write_bytes(whole[:third] + b"\xff\xfe" * 4 + rest)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run([*arguments]) == 0
    return capsys.readouterr().out


def gives_routes(cluster: ReplicatedProcesses, server: NameServerProcess) -> None:
    """Brokers report to it, and a gateway that knows no other one finds them."""
    gateway = GatewayProcess(cluster.directory, [server], {}, f"gateway-of-{len(list(cluster.directory.iterdir()))}")
    with gateway, door(gateway) as client:
        headers = {**event_headers("e"), "content-type": "application/json"}
        answer = client.post("/topics/t:publish", content=b"1", headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("name", FILES)
def test_it_does_not_take_the_name_server_along(
    cluster: ReplicatedProcesses, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    server = cluster.name_servers[0]
    assert server.stop() == 0
    directory = Path(server.settings["controller.data_dir"])
    kept = directory.with_name("kept")
    shutil.copytree(directory, kept, dirs_exist_ok=True)
    break_file(directory, name)
    server.start()
    try:
        gateway = f"http://{cluster.gateways[0].address('http')}"
        words = FILES[name]

        def is_told() -> bool:
            shown = told(capsys, "cluster", "show", "--server", gateway, "--json")
            [own] = [each for each in json.loads(shown)["controllers"] if each["controller"] == 1]
            return own["state"] == "waits" and words in (own["problem"] or "")

        wait_until(is_told, lambda: told(capsys, "cluster", "show", "--server", gateway))
        assert words in told(capsys, "ping", server.address("nameserver"))
        problem = json.loads(told(capsys, "ping", server.address("nameserver"), "--json"))["controller"]["problem"]
        assert words in problem and "replace it by a controller with a new id" in problem
        assert "the controller cannot go on; the name server does" in server.log_text()
        gives_routes(cluster, server)
    finally:
        server.kill()
        shutil.rmtree(directory)
        kept.rename(directory)
        server.start()
