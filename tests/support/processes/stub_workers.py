"""A parent of workers that do nothing but write into a file what happens: run as a process.

python -m tests.support.processes.stub_workers FILE crash|stay|quick|stuck

`crash`: the first worker ends at once, and the pause before the next is long.  `stay`: they end when FILE.go is there.
`quick`: they end when they are told to, before the parent looks after them once more.  `stuck`: the first gives no sign
of life.
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
from entrepot.gateway.children import ProofOfLife
from entrepot.gateway.settings import load_settings


def run(file: Path, mode: str) -> int:
    go = Path(f"{file}.go")

    def note(what: str) -> None:
        with file.open("a") as out:
            out.write(what + "\n")

    def worker(loaded: Any, main: Callable[[Any], Any], proof: ProofOfLife) -> int:
        signal.signal(signal.SIGTERM, lambda number, frame: note("signalled"))
        note("started")
        main(loaded)
        if mode == "stuck":
            is_stuck = file.read_text().split().count("started") == 1
            while is_stuck or "signalled" not in file.read_text():
                if not is_stuck:
                    proof.give()
                time.sleep(0.001)
            return 0
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

        def _kill_silent(self) -> None:
            if self._ready.keys() - self._pids.keys():
                note("stale")
            super()._kill_silent()

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
    changes.RESTART_SECONDS = 0.0 if mode == "stuck" else 60.0
    loaded = load_settings(flags={"cluster.workers": 1, "server.drain_seconds": 30.0})
    main: Any = lambda loaded, is_ready: is_ready()  # noqa: E731
    return Noting(loaded, {}, {}, main).run()


if __name__ == "__main__":
    os._exit(run(Path(sys.argv[1]), sys.argv[2]))
