"""Commands whose standard streams have no reader, no room, or are closed: what they say, and how they end."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from entrepot.gateway.cli import app as cli_module
from entrepot.gateway.cli.streams import OutputError
from tests.support.processes.stub_server import Stub, stub_server
from tests.support.waiting import PATIENCE_SECONDS

GONE = "exec 3> >(true); wait $!; "
"""Opens a pipe whose reader has ended."""
LONG = "config show --json"
TOPIC = {"name": "t", "queues": 8}
MESSAGE = {"event": {"id": "1", "type": "t", "source": "/s", "data": 1}, "brokerProperties": {"lockToken": "token"}}


@pytest.fixture
def server() -> Iterator[Stub]:
    with stub_server() as stub:
        yield stub


def entrepot(line: str, server: Stub | None = None) -> tuple[int, str]:
    """Run a command in a shell, with what the line redirects; the exit code, and what is on standard error."""
    environment = {**os.environ, "ENTREPOT_SERVER": server.url if server else "http://127.0.0.1:1"}
    shell = f'set -o pipefail; entrepot() {{ "{sys.executable}" -m entrepot.gateway.cli "$@"; }}; {line}'
    done = subprocess.run(
        ["bash", "-c", shell], env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    return done.returncode, done.stderr


def test_a_reader_that_leaves_early_ends_a_command_as_it_ends_any_other() -> None:
    """141, as of `yes | head -1`, and nothing is said."""
    assert entrepot(f"{GONE}entrepot {LONG} >&3") == (141, "")
    assert entrepot(f"{GONE}entrepot --help >&3") == (141, "")


@pytest.mark.parametrize(("where", "why"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")])
def test_output_that_cannot_be_written_is_told(where: str, why: str) -> None:
    code, told = entrepot(f"entrepot {LONG} {where}")
    assert code == 1
    assert told == f"entrepot: cannot write to standard output: {why}; the server was asked for no change\n"
    assert entrepot(f"entrepot --help {where}")[0] == 1
    assert entrepot(f"entrepot --version {where}")[0] == 1


@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
def test_a_change_that_was_made_is_not_called_undone(server: Stub, where: str) -> None:
    server.will_answer(TOPIC)
    code, told = entrepot(f"entrepot topic create t --json {where}", server)
    assert code == 1
    assert told.endswith("; the server has done what it was asked until then\n")
    assert server.asked[0].method == "PUT"


def test_a_look_is_no_change(server: Stub) -> None:
    server.will_answer({"value": []})
    code, told = entrepot("entrepot topic list --json >/dev/full", server)
    assert (code, told.endswith("; the server was asked for no change\n")) == (1, True)
    server.will_answer({"type": "about:blank", "detail": "no"}, 403)
    code, told = entrepot("entrepot topic create t >/dev/full", server)
    assert (code, told.count("\n"), "no" in told) == (1, 1, True)


@pytest.mark.parametrize(("before", "where", "code"), [("", ">/dev/full", 1), (GONE, ">&3", 141)])
def test_a_message_that_nobody_saw_is_not_acknowledged(server: Stub, before: str, where: str, code: int) -> None:
    server.will_answer({"value": [MESSAGE]})
    assert entrepot(f"{before}entrepot message receive t g --ack --json {where}", server)[0] == code
    assert [asked.path.partition("?")[0].rpartition(":")[2] for asked in server.asked] == ["receive"]


def test_all_streams_closed_end_a_command_after_its_work(server: Stub) -> None:
    server.will_answer(None)
    assert entrepot("entrepot topic delete t --yes >&- 2>&- <&-", server)[0] == 1
    assert [asked.method for asked in server.asked] == ["DELETE"]


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-", "2>&3"])
def test_an_error_that_nobody_can_be_told_keeps_its_exit_code(where: str) -> None:
    assert entrepot(f"{GONE}entrepot config show --set no.such=1 {where}")[0] == 2


def test_closed_input_is_as_an_empty_one(server: Stub) -> None:
    code, told = entrepot("entrepot topic delete t <&-", server)
    assert (code, "say --yes" in told) == (2, True)
    code, told = entrepot("entrepot message publish t --type t --source /s --data - <&-", server)
    assert (code, told) == (2, "entrepot: --data -: Bad file descriptor\n")
    assert server.asked == []


@pytest.mark.parametrize(("code", "ends"), [(0, 141), (1, 1), (2, 2)])
def test_a_failure_is_told_before_the_end_of_the_reader(code: int, ends: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is still held goes out after the command's own outcome is known."""

    class Gone(io.StringIO):
        def flush(self) -> None:
            raise OutputError(BrokenPipeError(errno.EPIPE, "Broken pipe"))

    monkeypatch.setattr(cli_module, "_run", lambda arguments: code)
    monkeypatch.setattr(cli_module, "discard_output", lambda: None)
    monkeypatch.setattr(sys, "stdout", Gone())
    assert cli_module.run([]) == ends
