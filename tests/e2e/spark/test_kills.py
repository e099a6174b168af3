"""Contract row 16: the driver and the Python workers of a running job are killed again and again; each message is in
the tables once."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from entrepot.spark_ingest.job.status import committed_offsets
from entrepot.spark_ingest.tables import TableFormat, open_table
from tests.support.fleet import Fleet
from tests.support.seed import SEED, seeded
from tests.support.soak_table import tell
from tests.support.topic_log import TopicWriter, log_of
from tests.support.waiting import PATIENCE_SECONDS, wait_until

KILLS = 20
DRIVER_KILLS = 2
SOURCE_KILLS = 2
MAX_ROUNDS = 3000
START_SECONDS = 3 * PATIENCE_SECONDS


class Job:
    """The command, in a process group of its own: its JVM and its workers die with it."""

    def __init__(self, command: list[str], log: Path, checkpoint: Path) -> None:
        self.command, self.log, self.checkpoint = command, log, checkpoint
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        self.starts += 1
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """SIGKILL for all of it."""
        assert self.process is not None
        family = [self.process.pid, *(child.pid for child in psutil.Process(self.process.pid).children(recursive=True))]
        for pid in family:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()

    def workers(self, *, of_driver: bool) -> list[psutil.Process]:
        """Spark's Python workers: those of its tasks, or the one that serves the source on the driver's side."""
        assert self.process is not None
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                words = " ".join(child.cmdline()[1:3])
                if "pyspark" in words and ("source_runner" in words) == of_driver:
                    found.append(child)
            except psutil.Error:
                continue
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


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_each_message_is_in_the_tables_once(
    ingest: Callable[..., list[str]], writer: TopicWriter, topic: str, tmp_path: Path
):
    chance = seeded()
    table = tmp_path / "factory"
    checkpoint = tmp_path / "factory_checkpoint"
    common = ["--no-derive", "--optimise-every", "7", "--vacuum-hours", "0", "--group", "-"]
    job = Job(
        ingest(topic, table, "--trigger", "100ms", "--max-messages", "300", *common), tmp_path / "job.log", checkpoint
    )
    fleet = Fleet(10, SEED)
    stop = threading.Event()

    def publish() -> None:
        while not stop.wait(0.05) and fleet.sequence < MAX_ROUNDS:  # the pace of the devices
            writer.append(topic, fleet.rounds(1))

    publisher = threading.Thread(target=publish)
    publisher.start()
    others = chance.sample(range(1, KILLS), DRIVER_KILLS + SOURCE_KILLS)  # they end the query, which starts again
    at_driver, at_source = set(others[:DRIVER_KILLS]), set(others[DRIVER_KILLS:])
    try:
        job.start()
        batch = job.wait_for_batch(-1)
        for number in range(KILLS):
            time.sleep(chance.random() * 0.5)  # anywhere in a batch
            workers = job.workers(of_driver=number in at_source)
            if number in at_driver or not workers:
                job.kill()
                job.start()
            else:
                try:
                    chance.choice(workers).kill()
                except psutil.NoSuchProcess:
                    pass  # it has just ended of itself
            batch = job.wait_for_batch(batch)
    finally:
        stop.set()
        publisher.join()
        job.kill()
    last = subprocess.run(
        ingest(topic, table, *common), capture_output=True, text=True, check=False, timeout=START_SECONDS
    )
    assert last.returncode == 0, last.stderr[-4000:]
    places: list[tuple[str, int, int]] = []
    for path in (str(table), f"{table}_dead_letters"):
        rows = open_table(TableFormat.DELTA, path).dataset().to_table(columns=["topic", "queue_id", "queue_offset"])
        places += zip(*(rows.column(name).to_pylist() for name in rows.column_names), strict=True)
    log = [(topic, queue, offset) for topic, queue, offset, _ in log_of(writer.store, [topic])]
    tell(
        "Spark job through kills of driver and workers",
        rounds=KILLS,
        messages=len(log),
        lost=len(set(log) - set(places)),
        phantom=len(set(places) - set(log)),
        duplicated=len(places) - len(set(places)),
        faults=KILLS,
    )
    assert len(log) > 1000
    assert sorted(places) == sorted(log)
    print(f"{KILLS} kills, {DRIVER_KILLS} of the driver; {job.starts} starts, {batch + 1} batches, {len(log)} messages")
