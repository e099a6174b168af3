"""A process of node that a test run's clients share: it begins with its first use, and ends with this one."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

from tests.support.waiting import PATIENCE_SECONDS

PEERS: Final = Path(__file__).resolve().parents[2] / "peers"
MODULES: Final = PEERS / "node_modules"
ENVIRONMENT: Final = {"NODE_PATH": str(MODULES), "PATH": "/usr/local/bin:/usr/bin:/bin"}


class NodeHost:
    """Runs `script`.  It is asked `[number, handle, verb, given]`, one JSON document a line, and answers with the
    number; what it says without having been asked is for `heard`."""

    def __init__(self, script: Path) -> None:
        self._script = script
        self._process: subprocess.Popen[str] | None = None
        self._answers: dict[int, Future[Any]] = {}
        self._numbers = itertools.count(1)

    def ask(self, handle: int, verb: str, given: Any = None) -> Any:
        """Return the answer to a verb of a client, a connection or a channel."""
        process = self._running()
        number = next(self._numbers)
        answer: Future[Any] = Future()
        self._answers[number] = answer
        assert process.stdin is not None
        process.stdin.write(json.dumps([number, handle, verb, given]) + "\n")
        process.stdin.flush()
        return answer.result(PATIENCE_SECONDS)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                ["node", str(self._script)],
                cwd=PEERS,
                env=ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            threading.Thread(target=self._read, args=(self._process,), daemon=True).start()
        return self._process

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            said = json.loads(line)
            if "answer" not in said:
                self.heard(said)
                continue
            answer = self._answers.pop(said["answer"])
            if said["error"]:
                answer.set_exception(self.refusal(said))
            else:
                answer.set_result(said.get("result"))

    def heard(self, said: dict[str, Any]) -> None:
        """It says something of itself."""
        raise NotImplementedError

    def refusal(self, said: dict[str, Any]) -> Exception:
        """The error of an answer, as this side raises it."""
        return AssertionError(said["error"])
