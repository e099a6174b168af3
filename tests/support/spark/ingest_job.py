"""`entrepot ingest` as a process that is killed, whole or in part, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from random import Random

import psutil  # type: ignore[import-untyped]

from entrepot.spark_ingest.job.status import committed_offsets
from tests.support.waiting import PATIENCE_SECONDS, wait_until

START_SECONDS = 3 * PATIENCE_SECONDS


def ingest_command(broker: str, topic: str, table: Path, *more: str, place: str = "--server") -> list[str]:
    """The command, for the address that the option `place` names: a broker's."""
    return [
        sys.executable, "-m", "entrepot.gateway.cli", "ingest", "--topic", topic, "--table", str(table),
        place, broker, "--master", "local[2,4]", *more,
    ]  # fmt: skip


class Part(StrEnum):
    """Parts of a job that may be killed. `TASKS` is a Python worker of a task; `SOURCE` the one that plans batches."""

    ALL = "all of it"
    COMMAND = "the command"
    JAVA = "its Java"
    TASKS = "a worker of a task"
    SOURCE = "the worker of the source"


class Job:
    """The command, in a process group of its own: its JVM and its workers die with it."""

    def __init__(self, command: list[str], log: Path, checkpoint: Path) -> None:
        self.command, self.log, self.checkpoint = command, log, checkpoint
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._orphans: list[psutil.Process] = []

    def start(self) -> None:
        self.starts += 1
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """SIGKILL for all of it."""
        assert self.process is not None
        family = [self.process.pid, *(child.pid for child in self._family())]
        for pid in family:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()

    def kill_part(self, part: Part, chance: Random) -> bool:
        """SIGKILL for a part of it; False where there is no such process now. What is left of a command without its
        Java, or the other way round, is to end by itself."""
        if part is Part.ALL:
            self.kill()
            return True
        assert self.process is not None
        found = [each for each in [psutil.Process(self.process.pid), *self._family()] if _part_of(each) is part]
        if part in (Part.COMMAND, Part.JAVA):
            self._orphans += self._family()
        try:
            if found:
                chance.choice(found).kill()
        except psutil.NoSuchProcess:
            return False  # it has just ended of itself
        if found and part is Part.COMMAND:
            self.process.wait()
        return bool(found)

    def wait_for_orphans(self) -> None:
        """Until nothing is left of what was killed in part."""
        wait_until(lambda: not any(each.is_running() for each in self._orphans), "no orphan is left", START_SECONDS)

    def _family(self) -> list[psutil.Process]:
        assert self.process is not None
        try:
            found: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return found

    def batch(self) -> int:
        return committed_offsets(self.checkpoint)[0] if (self.checkpoint / "commits").is_dir() else -1

    def wait_for_batch(self, after: int) -> int:
        """Until a batch behind `after` is done, starting the job again where it has ended."""
        assert self.process is not None

        def is_further() -> bool:
            assert self.process is not None
            if self.process.poll() is not None:
                self.start()
            return self.batch() > after

        wait_until(is_further, lambda: self.log.read_text(errors="replace")[-4000:], START_SECONDS)
        return self.batch()


def _part_of(process: psutil.Process) -> Part | None:
    """The part that a process of a job is; None for others, such as the daemon that forks the workers."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return None
    text = " ".join(words[1:3])
    if "entrepot.gateway.cli" in text:
        return Part.COMMAND
    if words and Path(words[0]).name == "java":
        return Part.JAVA
    if "pyspark" in text:
        return Part.SOURCE if "source_runner" in text else Part.TASKS
    return None
