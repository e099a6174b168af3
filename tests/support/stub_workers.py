"""A parent of workers that do nothing but write into a file what happens: run as a process.

python -m tests.support.stub_workers FILE crash|stay|quick

`crash`: the first worker ends at once, and the pause before the next is long.  `stay`: they end when FILE.go is there.
`quick`: they end when they are told to, before the parent looks after them once more.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from entrepot.gateway import workers
from entrepot.gateway.settings import load_settings


def run(file: Path, mode: str) -> int:
    go = Path(f"{file}.go")

    def note(what: str) -> None:
        with file.open("a") as out:
            out.write(what + "\n")

    def worker(loaded: Any, main: Callable[[Any], Any]) -> int:
        signal.signal(signal.SIGTERM, lambda number, frame: note("signalled"))
        note("started")
        main(loaded)
        if mode == "crash":
            return 3
        if mode == "quick":
            while "signalled" not in file.read_text():
                time.sleep(0.001)
            return 0
        while not go.exists():
            time.sleep(0.01)
        return 0

    class Noting(workers._Workers):
        def _stop(self, number: int = signal.SIGTERM, frame: object = None) -> None:
            super()._stop(number, frame)
            note("told")

        def _restart_ended(self) -> None:
            before = set(self._pids)
            for pid in before if mode == "quick" and self._is_stopping else ():
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            super()._restart_ended()
            if before != set(self._pids):
                note("ended")

    changes: Any = workers
    changes.run_process = worker
    changes.LifeLine.stop_at_its_end = lambda line: None  # they have no event loop
    changes.RESTART_SECONDS = 60.0
    loaded = load_settings(flags={"cluster.workers": 1, "server.drain_seconds": 30.0})
    main: Any = lambda loaded, is_ready: is_ready()  # noqa: E731
    return Noting(loaded, {}, {}, main).run()


if __name__ == "__main__":
    os._exit(run(Path(sys.argv[1]), sys.argv[2]))
