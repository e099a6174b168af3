"""rabbitmq-c's amqp-tools on our server and on RabbitMQ: what the shell sees is the same."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.amqp import servers as amqp_servers
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("amqp-publish") is None, reason="amqp-tools are not installed (make peers)"),
]


@dataclass
class Shell:
    """Runs the tools against one server; names are unique by a suffix."""

    port: int
    suffix: str

    def name(self, word: str) -> str:
        return f"{word}.{self.suffix}"

    def run(self, tool: str, *arguments: str, given: bytes = b"", user: str = "guest:guest") -> tuple[int, str, str]:
        """Exit code, output and errors."""
        command = [tool, f"--url=amqp://{user}@127.0.0.1:{self.port}/%2f", *arguments]
        done = subprocess.run(command, input=given, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
        plain = [text.decode().replace(f".{self.suffix}", "") for text in (done.stdout, done.stderr)]
        return done.returncode, plain[0], plain[1]


@pytest.fixture(params=amqp_servers.NAMES)
def shell(request: pytest.FixtureRequest, amqp_port: Callable[[str], int]) -> Shell:
    return Shell(amqp_port(request.param), uuid4().hex[:10])


def test_declare_publish_get_delete(shell: Shell) -> None:
    queue = shell.name("q")
    assert shell.run("amqp-declare-queue", "-d", "-q", queue) == (0, "q\n", "")
    assert shell.run("amqp-publish", "-r", queue, "-p", "-b", "a body") == (0, "", "")
    assert shell.run("amqp-get", "-q", queue) == (0, "a body", "")
    assert shell.run("amqp-get", "-q", queue) == (2, "", "")
    assert shell.run("amqp-publish", "-r", queue, given=b"from\x00standard\xffinput")[0] == 0
    assert shell.run("amqp-delete-queue", "-q", queue) == (0, "1\n", "")
    assert shell.run("amqp-delete-queue", "-q", queue) == (0, "0\n", "")


def test_server_named_queue(shell: Shell) -> None:
    code, name, _ = shell.run("amqp-declare-queue", "-q", "")
    assert (code, name[:8]) == (0, "amq.gen-")
    assert shell.run("amqp-delete-queue", "-q", name.strip())[0] == 0


def test_lines_are_messages_and_commands_consume_them(shell: Shell) -> None:
    queue = shell.name("q")
    shell.run("amqp-declare-queue", "-q", queue)
    assert shell.run("amqp-publish", "-r", queue, "-l", given=b"one\ntwo\nthree\n")[0] == 0
    code, output, _ = shell.run("amqp-consume", "-q", queue, "-c", "3", "-p", "1", "cat")
    assert (code, output) == (0, "one\ntwo\nthree\n")
    assert shell.run("amqp-get", "-q", queue)[0] == 2, "what a command took is acknowledged"


def test_what_a_failing_command_took_comes_again(shell: Shell, tmp_path: Path) -> None:
    failing = tmp_path / "failing"
    failing.write_text("#!/bin/sh\ncat >/dev/null\nexit 1\n")
    failing.chmod(0o755)
    queue = shell.name("q")
    shell.run("amqp-declare-queue", "-q", queue)
    shell.run("amqp-publish", "-r", queue, "-b", "kept")
    assert shell.run("amqp-consume", "-q", queue, "-c", "1", str(failing))[0] == 0
    code, output, _ = shell.run("amqp-consume", "-q", queue, "-c", "1", "cat")
    assert (code, output) == (0, "kept")


def test_missing_queue(shell: Shell) -> None:
    code, output, errors = shell.run("amqp-get", "-q", shell.name("q"))
    assert (code, output) == (1, "")
    assert "server channel error 404, message: NOT_FOUND - no queue 'q' in vhost '/'" in errors


def test_delete_if_empty(shell: Shell) -> None:
    queue = shell.name("q")
    shell.run("amqp-declare-queue", "-q", queue)
    shell.run("amqp-publish", "-r", queue, "-b", "x")
    code, _, errors = shell.run("amqp-delete-queue", "-e", "-q", queue)
    assert code == 1
    assert "406, message: PRECONDITION_FAILED - queue 'q' in vhost '/' not empty" in errors


def test_wrong_password(shell: Shell) -> None:
    code, _, errors = shell.run("amqp-get", "-q", "q", user="guest:wrong")
    assert code == 1
    assert "403" in errors
