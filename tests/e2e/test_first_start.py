"""What a first start says where it cannot be, in plain words and before anything is opened."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_until


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else has."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def told(server: ServerProcess) -> str:
    """What a start that fails says, last and on one line."""
    with pytest.raises(AssertionError, match="ended with 1"):
        server.start()
    assert "Traceback" not in server.log_text()
    return server.log_text().strip().splitlines()[-1]


def test_all_ports_that_are_taken_are_named_before_the_store_is_opened(tmp_path: Path, taken: int) -> None:
    line = told(ServerProcess(tmp_path, {"mqtt.port": str(taken), "grpc.port": str(taken)}))
    for key in ("mqtt.port", "grpc.port"):
        assert f"cannot listen on 127.0.0.1:{taken}: another program listens there already ({key})" in line
    assert not (tmp_path / "data").exists()


def test_workers_name_a_port_that_is_taken(taken: int) -> None:
    command = [str(Path(sys.executable).with_name("entrepot")), "gateway", "--broker", "127.0.0.1:1", "--free-ports"]
    command += ["--set", "cluster.workers=2", "--set", f"http.port={taken}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert f"127.0.0.1:{taken}: another program listens there already (http.port)" in done.stderr


def test_an_address_of_another_machine(tmp_path: Path) -> None:
    line = told(ServerProcess(tmp_path, {"server.host": "192.0.2.1"}))
    assert "it is not an address of this machine (server.host)" in line
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("file", "it is a file, not a directory"),
        ("file/data", "a part of the path is a file, not a directory"),
        ("/proc/none", "no directory can be made there"),
    ],
)
def test_a_data_directory_that_cannot_be(tmp_path: Path, path: str, why: str) -> None:
    (tmp_path / "file").touch()
    server = ServerProcess(tmp_path)
    server.data_dir = tmp_path / path
    assert f"the data directory {server.data_dir} cannot be used: {why}. store.data_dir names another" in told(server)


def test_listening_for_other_machines_without_users_warns(tmp_path: Path) -> None:
    warning = "clients of other machines are refused: no user is defined"
    cheap = CHEAP_FLAGS
    everywhere = {**cheap, "server.host": "0.0.0.0"}
    for name, settings, is_warned in (
        ("everywhere", everywhere, True),
        ("with a user", {**everywhere, "security.initial_admin": "admin"}, False),
        ("here", cheap, False),
    ):
        (tmp_path / name).mkdir()
        with ServerProcess(tmp_path / name, settings) as server:
            wait_until(lambda: "Entrepôt is ready" in server.log_text(), server.log_text)
            assert server.log_text().count(warning) == is_warned, name
