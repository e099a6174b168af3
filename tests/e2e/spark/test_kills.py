"""Contract row 16: driver, Java, Python workers and broker of a running job are killed again and again; each confirmed
message is in the tables once, in every format."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from entrepot.domain.errors import EntrepotError
from entrepot.spark_ingest.tables import TableFormat, open_table
from tests.support.processes.server import ServerProcess
from tests.support.seed import SEED, seeded
from tests.support.soak_table import tell
from tests.support.spark.fleet import Fleet
from tests.support.spark.ingest_job import START_SECONDS, Job, Part, ingest_command
from tests.support.spark.topic_log import TopicWriter, log_of

TURNS = int(os.environ.get("ENTREPOT_TEST_INGEST_KILL_TURNS", "2"))
"""Kills of each victim; workers of tasks, which cost no start of Spark, three times as often."""
BROKER = "the broker"
VICTIMS = (*Part, BROKER, Part.TASKS, Part.TASKS)
MAX_ROUNDS = 3000
TOPIC = "factory"


class Publisher(threading.Thread):
    """A fleet that publishes at its pace, through ends of the broker. `unsure`: numbers of rounds that nobody has
    confirmed."""

    def __init__(self, writer: TopicWriter) -> None:
        super().__init__()
        self._writer, self._over = writer, threading.Event()
        self.fleet = Fleet(10, SEED)
        self.unsure: set[int] = set()

    def run(self) -> None:
        while not self._over.wait(0.05) and self.fleet.sequence < MAX_ROUNDS:  # the pace of the devices
            number, messages = self.fleet.sequence, self.fleet.rounds(1)
            try:
                self._writer.append(TOPIC, messages)
            except EntrepotError:
                self.unsure.add(number)

    def stop(self) -> None:
        self._over.set()
        self.join()

    @property
    def confirmed(self) -> set[tuple[str, int]]:
        """Devices and numbers of readable messages that were confirmed."""
        return {key for key in self.fleet.good if key[1] not in self.unsure}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of the test's own, which may be killed."""
    with ServerProcess(tmp_path, {"broker.enabled": "true"}) as process:
        yield process


def kill_all_in_turn(job: Job, broker: ServerProcess, chance: Random) -> list[str]:
    """Kill each victim so often, in any order, at any moment, and wait for the next batch behind each kill; who was
    killed."""
    killed: list[str] = []
    batch = job.wait_for_batch(-1)
    for victim in chance.sample(VICTIMS * TURNS, len(VICTIMS) * TURNS):
        time.sleep(chance.random() * 0.5)  # anywhere in a batch
        if isinstance(victim, Part):
            if not job.kill_part(victim, chance):
                job.kill()
                victim = Part.ALL
        else:
            broker.kill()
            broker.restart()
        killed.append(victim)
        batch = job.wait_for_batch(batch)
    return killed


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", list(TableFormat))
def test_each_message_is_in_the_tables_once(broker: ServerProcess, kind: TableFormat, tmp_path: Path):
    chance = seeded()
    writer = TopicWriter(broker.address("broker"))
    writer.create(TOPIC)
    table = tmp_path / TOPIC
    common = ["--no-derive", "--optimise-every", "7", "--vacuum-hours", "0", "--group", "-", "--format", kind]

    def command(*more: str) -> list[str]:
        return ingest_command(broker.address("broker"), TOPIC, table, *more, *common)

    job = Job(command("--trigger", "100ms", "--max-messages", "300"), tmp_path / "job.log", Path(f"{table}_checkpoint"))
    publisher = Publisher(writer)
    publisher.start()
    try:
        job.start()
        killed = kill_all_in_turn(job, broker, chance)
    finally:
        publisher.stop()
        job.kill()
    job.wait_for_orphans()
    last = subprocess.run(command(), capture_output=True, text=True, check=False, timeout=START_SECONDS)
    assert last.returncode == 0, last.stderr[-4000:]
    places: list[tuple[str, int, int]] = []
    for path in (str(table), f"{table}_dead_letters"):
        rows = open_table(kind, path).dataset().to_table(columns=["topic", "queue_id", "queue_offset"])
        places += zip(*(rows.column(name).to_pylist() for name in rows.column_names), strict=True)
    log = [(topic, queue, offset) for topic, queue, offset, _ in log_of(writer.store, [TOPIC])]
    writer.close()
    read = open_table(kind, str(table)).dataset().to_table(columns=["device", "seq"])
    readings = set(zip(read.column("device").to_pylist(), read.column("seq").to_pylist(), strict=True))
    tell(
        f"Spark job into {kind} through kills of driver, workers and broker",
        rounds=len(killed),
        messages=len(log),
        lost=len(set(log) - set(places)) + len(publisher.confirmed - readings),
        phantom=len(set(places) - set(log)),
        duplicated=len(places) - len(set(places)),
        faults=len(killed),
    )
    print(f"killed: {', '.join(killed)}; {job.starts} starts, {job.batch() + 1} batches, {len(log)} messages")
    assert len(log) > 1000
    assert sorted(places) == sorted(log)
    assert publisher.confirmed <= readings
    ended = [victim for victim in killed if victim not in (BROKER, Part.TASKS)]
    assert job.starts <= 1 + len(ended), "no kill of a broker or of a task's worker ends the command"
    assert "entrepot: unexpected" not in job.log.read_text(errors="replace"), "what ends the command is told in words"
