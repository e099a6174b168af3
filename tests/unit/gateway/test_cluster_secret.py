"""`entrepot cluster secret`: makes a secret that only its owner reads, never in place of one, and keys of roles."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from entrepot.gateway.cli.app import run
from entrepot.gateway.settings import environment_name, load_settings
from entrepot.protocols.wire.authentication import ClusterSecret, Role
from tests.support.processes.command_line import build_commands_once

Secret = Callable[..., tuple[int, str, str]]


@pytest.fixture
def secret(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Secret:
    """Run the command; gives exit code, standard output and standard error."""
    build_commands_once(monkeypatch)

    def command(*arguments: str | Path) -> tuple[int, str, str]:
        code = run(("cluster", "secret", *map(str, arguments)))
        return (code, *capsys.readouterr())

    return command


def test_a_secret_is_printed(secret: Secret) -> None:
    first, second = secret()[1], secret()[1]
    assert first != second
    assert ClusterSecret(first).is_whole and len(first.strip()) == 64


def test_a_file_is_made_once_and_for_its_owner(tmp_path: Path, secret: Secret) -> None:
    file = tmp_path / "cluster-secret"
    assert secret(file) == (0, "", "")
    made = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    code, _, error = secret(file)
    assert code == 1 and "is there: remove it to make another secret" in error
    assert secret(file, "--keep")[0] == 0
    assert file.read_text() == made
    code, _, error = secret(tmp_path / "no" / "secret")
    assert code == 1 and "cannot be written" in error


@pytest.mark.parametrize("role", [Role.GATEWAY, Role.JOB])
def test_the_key_of_a_role_is_printed(tmp_path: Path, secret: Secret, role: Role) -> None:
    file = tmp_path / "cluster-secret"
    secret(file)
    code, key, _ = secret(file, "--role", role)
    assert code == 0
    assert not ClusterSecret(key).is_whole
    assert ClusterSecret(key).key(role) == ClusterSecret(file.read_text()).key(role)
    assert (ClusterSecret(key).client_role, ClusterSecret(file.read_text()).client_role) == (role, Role.GATEWAY)


def test_wrong_usage_is_told(tmp_path: Path, secret: Secret) -> None:
    for role in ("king", "broker"):
        assert "all others need the secret itself" in secret(tmp_path / "x", "--role", role)[2]
    assert "name its file" in secret("--role", "gateway")[2]
    assert "cannot be read" in secret(tmp_path / "x", "--role", "gateway")[2]
    (tmp_path / "short").write_text("short")
    assert "too short" in secret(tmp_path / "short", "--role", "gateway")[2]


def test_settings_give_it(tmp_path: Path) -> None:
    given = {
        environment_name("cluster.secret"): "the secret of this cluster",
        environment_name("cluster.trusted_network"): "true",
    }
    trust = load_settings(environ=given).settings.cluster.trust()
    assert (trust.secret, trust.is_network_trusted, trust.secret_file) == ("the secret of this cluster", True, None)
    given = {environment_name("cluster.secret_file"): str(tmp_path / "s")}
    assert load_settings(environ=given).settings.cluster.trust().secret_file == tmp_path / "s"
    with pytest.raises(Exception, match="names of clients' certificates need tls_certificate and tls_ca"):
        load_settings(environ={environment_name("cluster.tls_names"): '["a.example"]'})
