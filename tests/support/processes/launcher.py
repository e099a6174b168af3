"""Server processes that start warm: a launcher per test worker has everything imported, and forks.

What runs in the fork is the command's own entry point with its arguments, in a process of its own; it saves a second of
imports for each of the thousands of starts.  (`make run`, `make cluster` and the commands of the documentation are
tested by themselves, started as a user starts them.)
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn

from tests.support.processes import measured

MODULES: Final = (
    "entrepot.gateway.cli.app",
    "entrepot.gateway.serving",
    "entrepot.gateway.deployment",
    "entrepot.gateway.http.app",
    "entrepot.gateway.http.server",
    "entrepot.gateway.rocketmq.frontend",
    "entrepot.gateway.rocketmq.listener",
    "entrepot.broker.broker",
    "entrepot.broker.server.process",
    "uvicorn",
    "entrepot.store_client.embedded",
    "tests.support.stores.model_store",
    "entrepot.store_client.remote",
)
PLACES: Final = ("tests.support.processes.launcher", "tests.support.launcher")
"""This module, and its place in the trees of earlier versions."""
POLL_SECONDS: Final = 0.005
ROOT: Final = Path(__file__).parents[3]


class WarmProcess:
    """As `subprocess.Popen`, as far as tests ask for it."""

    def __init__(self, launcher: Launcher, pid: int) -> None:
        self._launcher, self.pid = launcher, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self.returncode is None:
            self.returncode = self._launcher.ask({"poll": self.pid})
        return self.returncode

    def wait(self, timeout: float) -> int:
        """The exit code.  Raises subprocess.TimeoutExpired."""
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("entrepot", timeout)
            time.sleep(POLL_SECONDS)
        return code

    def send_signal(self, number: int) -> None:
        """Nothing where it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


class Launcher:
    """The side of the tests; any thread may ask.  `root`: the tree whose server it runs."""

    def __init__(self, root: Path) -> None:
        ours, theirs = socket.socketpair()
        module = next(each for each in PLACES if (root / each.replace(".", "/")).with_suffix(".py").exists())
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        theirs.close()
        self._file = ours.makefile("rw")
        self._lock = threading.Lock()

    def start(self, arguments: list[str], environment: dict[str, str], log: Path) -> WarmProcess:
        """`entrepot` with arguments; what it prints is added to the log."""
        asked = {"start": arguments, "environment": environment, "log": str(log), "directory": str(Path.cwd())}
        return WarmProcess(self, self.ask(asked))

    def ask(self, question: dict[str, Any]) -> Any:
        """The answer of the launcher."""
        with self._lock:
            print(json.dumps(question), file=self._file, flush=True)
            return json.loads(self._file.readline())


_LAUNCHERS: dict[tuple[int, Path], Launcher] = {}


def warm(root: Path = ROOT) -> Launcher:
    """Let the launcher of this process import everything, before anybody asks it for a server."""
    key = os.getpid(), root
    if key not in _LAUNCHERS:
        _LAUNCHERS[key] = Launcher(root)
    return _LAUNCHERS[key]


def launch(arguments: list[str], environment: dict[str, str], log: Path, root: Path = ROOT) -> WarmProcess:
    """A process of `entrepot`, of this tree or another."""
    return warm(root).start(arguments, environment, log)


# -- the launcher's side -----------------------------------------------------------------------------------------------


def serve(descriptor: int) -> None:
    """Start and watch processes for who holds the other end, until it is closed; they end with it."""
    for name in MODULES:
        import_module(name)
    running: dict[int, int | None] = {}
    with socket.socket(fileno=descriptor) as channel, channel.makefile("rw") as lines:
        for line in lines:
            question = json.loads(line)
            if "poll" in question:
                answer = _code(running, question["poll"])
            else:
                answer = os.fork()
                if not answer:
                    _run(question, descriptor)
                running[answer] = None
            print(json.dumps(answer), file=lines, flush=True)
    for pid in running:
        if _code(running, pid) is None:
            os.kill(pid, signal.SIGKILL)


def _code(running: dict[int, int | None], pid: int) -> int | None:
    if running[pid] is None:
        ended, status = os.waitpid(pid, os.WNOHANG)
        running[pid] = os.waitstatus_to_exitcode(status) if ended else None
    return running[pid]


def _run(question: dict[str, Any], descriptor: int) -> NoReturn:
    """In the fork: the command, as `python -m gateway.cli` runs it."""
    import random

    from entrepot.gateway.cli.app import main

    code: object = 1
    try:
        os.close(descriptor)
        log = os.open(question["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.environ.clear()
        os.environ.update(question["environment"])
        os.chdir(question["directory"])
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
        measured.obey()
        random.seed()
        sys.argv = ["entrepot", *question["start"]]
        main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    serve(int(sys.argv[1]))
