"""Identity and rights through a real server process: the command line, the HTTP door, a restart, and no secret out."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from entrepot.gateway.cli.app import run
from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.http.client import http_client
from tests.support.processes.command_line import build_commands_once
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_until

Capture = pytest.CaptureFixture[str]
CHEAP = CHEAP_FLAGS
EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/me"}

NO_KEYS = (
    "SharedAccessKey",
    "SharedAccessKey pw",
    "SharedAccessKey admin:",
    "SharedAccessKey x:pw",
    "SharedAccessKey \xff:pw",
)


class Operator:
    """The command line, as somebody or nobody."""

    def __init__(self, server: ServerProcess, capsys: Capture, user: str = "", password: str = "") -> None:
        self._server, self._capsys = server, capsys
        self._credentials = {"ENTREPOT_USER": user, "ENTREPOT_PASSWORD": password}

    def run(self, *arguments: str, secret: str = "") -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        self._capsys.readouterr()
        with pytest.MonkeyPatch.context() as patched:
            build_commands_once(patched)
            patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(secret.encode())))
            for name, value in self._credentials.items():
                patched.setenv(name, value)
            code = run([*arguments, "--server", f"http://{self._server.address('http')}"])
        return code, *self._capsys.readouterr()

    def does(self, *arguments: str, secret: str = "") -> str:
        code, told, complaint = self.run(*arguments, secret=secret)
        assert code == 0, complaint
        return told


def client_of(server: ServerProcess, name: str | None = None, password: str = "") -> httpx2.Client:
    auth = None if name is None else (name, password)
    return http_client(f"http://{server.address('http')}", auth=auth)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """One without users."""
    with ServerProcess(tmp_path, CHEAP) as running:
        yield running


def test_the_command_line_governs(server: ServerProcess, capsys: Capture) -> None:
    nobody, root = Operator(server, capsys), Operator(server, capsys, "root", "canary-root")
    nobody.does("user", "create", "root", "--super", "--password-file", "-", secret="canary-root\n")
    root.does("user", "create", "till", "--password-file", "-", secret="canary-till\n")
    root.does("acl", "set", "till", "--allow", "PUB,SUB@Topic:config/#", "--deny", "ALL@Topic:config/secret/#")
    told = root.does("acl", "explain", "till", "SUB", "Topic:config/secret/keys")
    assert told.startswith("DENY: a statement denies it")
    assert "DENY ALL on Topic:config/secret/#" in told
    assert "Without this statement, statement 1 of User:till would allow it." in told
    assert "ALLOW PUB, SUB on Topic:config/#" in root.does("acl", "effective", "till")
    assert root.does("acl", "effective", "root") == "ALLOW: a super user\n"
    rows = [line.split() for line in root.does("acl", "who", "Topic:config/a").splitlines()]
    assert ["User:till", "allowed", "allowed", *["none"] * 5] in rows
    assert "till" in root.does("user", "list", "--find", "TIL")
    assert "root" not in root.does("user", "list", "--find", "TIL")
    code, _, complaint = root.run("user", "delete", "root", "--yes")
    assert (code, "last super user" in complaint) == (1, True)
    root.does("user", "create", "boss", "--super", "--password-file", "-", secret="canary-boss\n")
    code, _, complaint = root.run("user", "update", "root", "--no-super")
    assert (code, "confirm=own-rights" in complaint) == (1, True)
    root.does("user", "update", "root", "--no-super", "--own")
    boss = Operator(server, capsys, "boss", "canary-boss")
    boss.does("topic", "create", "told")
    changes = boss.does("user", "audit", "--kind", "changes", "--resource", "topic told")
    assert "topic created" in changes and "PUT /api/v1/topics/{name}" in changes
    assert "denied" not in boss.does("user", "audit", "--kind", "changes")
    code, paged, more = boss.run("user", "audit", "--limit", "1", "--event", "user created")
    assert (code, "boss" in paged, more.startswith("more: --cursor ")) == (0, True, True)
    following = boss.does("user", "audit", "--limit", "1", "--event", "user created", *more.split()[1:])
    assert "till" in following
    settings = boss.does("config", "running", "--only", "set", "--find", "argon2")
    assert "flag --set security.argon2_iterations" in settings
    everything = changes + settings + boss.does("config", "running") + boss.does("user", "list")
    assert "canary" not in everything


def test_from_the_first_user_to_a_restart(server: ServerProcess, capsys: Capture) -> None:
    nobody, root = Operator(server, capsys), Operator(server, capsys, "root", "canary-root")
    with client_of(server) as client:
        assert client.post("/topics/factory:publish", headers=EVENT).status_code == 200
    code, _, complaint = nobody.run("user", "create", "bob", "--password-file", "-", secret="canary-bob\n")
    assert code == 1 and "first user must be a super user" in complaint
    nobody.does("user", "create", "root", "--super", "--password-file", "-", secret="canary-root\n")
    assert nobody.run("user", "list")[0] == 1
    root.does("user", "create", "bob", "--password-file", "-", secret="canary-bob\n")
    root.does("acl", "set", "bob", "--allow", "PUB@Topic:factory/#", "--deny", "PUB@Topic:factory/secret/#")
    assert root.does("acl", "explain", "bob", "PUB", "Topic:factory/secret/x").startswith("DENY")
    assert root.does("acl", "explain", "bob", "PUB", "Topic:factory/x").startswith("ALLOW")
    for again in (False, True):
        if again:
            assert server.stop() == 0
            server.restart()
        with client_of(server) as client:
            assert client.post("/topics/factory:publish", headers=EVENT).status_code == 401
            assert client.get("/healthz").status_code == 200
        with client_of(server, "bob", "canary-bob") as bob:
            assert bob.post("/topics/factory:publish", headers=EVENT).status_code == 200
            secret = {**EVENT, "ce-subject": "secret/x"}
            assert bob.post("/topics/factory:publish", headers=secret).status_code == 403
            assert bob.post("/topics/factory:publish", headers=EVENT).status_code == 200
            assert bob.get("/api/v1/topics").status_code == 403
    assert "denied" in root.does("user", "audit")
    with client_of(server, "root", "canary-root") as administrator:
        paths = ("/api/v1/users", "/api/v1/users/bob", "/api/v1/acls", "/api/v1/audit", "/metrics", "/openapi.json")
        answers = "".join(administrator.get(path).text for path in paths)
        assert "bob" in answers
    with client_of(server, "bob", "canary-bob") as bob:
        root.does("user", "password", "bob", "--password-file", "-", secret="canary-new\n")
        assert bob.post("/topics/factory:publish", headers=EVENT).status_code == 401
    root.does("user", "delete", "bob", "--yes")
    assert root.run("user", "delete", "root", "--yes")[0] == 1
    for told in (answers, server.log_text()):
        assert "canary" not in told
        assert "$argon2" not in told


def test_the_first_user_of_the_settings(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("canary-admin\n")
    settings = {**CHEAP, "security.initial_admin": "admin", "security.initial_admin_password_file": str(password)}
    with ServerProcess(tmp_path, settings) as server:
        with client_of(server) as client:
            assert client.get("/api/v1/topics").status_code == 401
        with client_of(server, "admin", "canary-admin") as admin:
            assert admin.get("/api/v1/topics").status_code == 200
        assert "canary" not in server.log_text()


def test_a_password_is_made_up_for_the_first_user(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, {**CHEAP, "security.initial_admin": "admin"}) as server:
        file = server.data_dir / "initial-admin-password"
        made_up = file.read_text().strip()
        told = f"The first user is admin, with the password in {file}"
        wait_until(lambda: told in server.log_text(), server.log_text)
        assert made_up not in server.log_text()
        with client_of(server, "admin", made_up) as admin:
            assert admin.get("/api/v1/topics").status_code == 200
            admin.put("/api/v1/users/admin", json={"password": "other"}).raise_for_status()
        server.stop()
        server.restart()
        with client_of(server, "admin", "other") as admin:
            assert admin.get("/api/v1/topics").status_code == 200


def test_no_door_opens_without_its_first_user(tmp_path: Path) -> None:
    settings = {**CHEAP, "security.initial_admin": "admin", "security.initial_admin_password_file": "/nonexistent/file"}
    server = ServerProcess(tmp_path, settings)
    with pytest.raises(AssertionError, match="ended with 1"):
        server.start()


def test_headers_that_are_no_credentials(tmp_path: Path) -> None:
    settings = {**CHEAP, "security.initial_admin": "admin", "security.initial_admin_password": "pw"}
    with ServerProcess(tmp_path, settings) as server, client_of(server) as client:
        for header in ("Basic", "Basic !!!", "Basic Ym9i", "Digest x", "Bearer", "Bearer x.y.z", "", *NO_KEYS):
            assert (
                client.get("/api/v1/topics", headers=[(b"authorization", header.encode("latin-1"))]).status_code == 401
            )
        right = ("authorization", "Basic YWRtaW46cHc=")
        assert client.get("/api/v1/topics", headers=[right]).status_code == 200
        assert client.get("/api/v1/topics", headers=[right, right]).status_code == 401
        for key in ("SharedAccessKey admin:pw", "sharedaccesskey  admin:pw"):
            assert client.get("/api/v1/topics", headers={"authorization": key}).status_code == 200
