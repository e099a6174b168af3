"""Every door at work in a process of its own, which may be on another machine of a network of tests.

It is told a word a line, and answers with a line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tests.support.doors.every_door import EveryDoor, Findings, Record, gone_on
from tests.support.waiting import PATIENCE_SECONDS, wait_until

LONG_SECONDS = 3 * PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class Gateway:
    """Addresses of its listeners."""

    addresses: dict[str, str]

    def address(self, door: str) -> str:
        return self.addresses[door]


class EveryDoorProcess:
    """`command`: what starts a command on the clients' machine.  `host`: where webhooks reach that.  `series`: ends the
    publishers' names."""

    def __init__(
        self,
        gateways: Sequence[dict[str, str]],
        host: str = "127.0.0.1",
        command: Callable[..., list[str]] | None = None,
        series: str = "",
    ) -> None:
        asked = json.dumps({"gateways": list(gateways), "host": host, "series": series})
        words = [sys.executable, "-m", "tests.support.doors.every_door_process", asked]
        self._process = subprocess.Popen(
            command(*words) if command is not None else words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        self._ask("begin")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            with contextlib.suppress(OSError, ValueError):
                print(json.dumps(self.look()))
        assert self._process.stdin is not None
        self._process.stdin.close()  # it ends what it has started, and itself
        try:
            self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise

    def _ask(self, word: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(word, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def look(self) -> dict[str, Any]:
        """Progress, connections, what is missing, and so on."""
        found: dict[str, Any] = self._ask("look")
        return found

    def record(self) -> Record:
        """The promises of this moment."""
        return Record.of_json(self._ask("record"))

    def goes_on(self, count: int = 10) -> None:
        """Return when every publisher and every reader has so many more."""
        before = self.look()["progress"]
        wait_until(
            lambda: gone_on(before, count, lambda: self.look()["progress"]),
            lambda: f"every door goes on: {before} {self.look()}",
            LONG_SECONDS,
        )

    def finish(self) -> Findings:
        """End the publishers, wait for what is missing, and say what is wrong."""
        self._ask("end producing")
        with contextlib.suppress(AssertionError):  # the findings say what is missing
            wait_until(lambda: not self.look()["missing"], "all is there", LONG_SECONDS)
        return Findings(**self._ask("findings"))


# -- the side of the clients -------------------------------------------------------------------------------------------


def _look(doors: EveryDoor) -> dict[str, Any]:
    return {
        "progress": doors.progress(),
        "connections": doors.connections(),
        "missing": doors.missing(),
        "active": doors.active,
        "refused": doors.refused(),
        "refusals": doors.rocketmq.refusals,
        "ends": [each.ends for each in (*doors.tails, *doors.streams)],
    }


def main() -> None:
    """Do what is asked, until nobody asks any more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what others print is no answer
    asked = json.loads(sys.argv[1])
    doors = EveryDoor([Gateway(each) for each in asked["gateways"]], asked["host"], asked["series"])
    calls: dict[str, Callable[[], Any]] = {
        "begin": doors.begin,
        "look": lambda: _look(doors),
        "record": lambda: doors.record().as_json(),
        "end producing": doors.end_producing,
        "findings": lambda: doors.findings().as_json(),
    }
    try:
        for line in sys.stdin:
            print(json.dumps(calls[line.strip()]()), file=answers, flush=True)
    finally:
        doors.webhook.receiver.stop()
        os._exit(0)  # readers wait for what never comes


if __name__ == "__main__":
    main()
