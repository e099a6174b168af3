"""Drills of operators while every door is at work: back to the last backup after the loss of all disks, and moves.

What was confirmed before the last backup began comes back, once; what was acknowledged by then stays so; and the doors
go on.  Moves that controllers make one after the other are all made, lose nothing and double nothing.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from entrepot.broker.remoting.link import LinkSettings
from entrepot.broker.replication.verifying import compare
from entrepot.gateway.cli.app import run
from entrepot.store_client.blocking import StoreLocation, open_reader
from tests.support.doors.every_door import AT_LEAST_ONCE, SETTINGS, Findings, Record
from tests.support.doors.every_door_process import LONG_SECONDS, EveryDoorProcess
from tests.support.http.load import TOPIC
from tests.support.processes.replicated_processes import ReplicatedProcesses
from tests.support.seed import seeded
from tests.support.soak_table import tell
from tests.support.spark.topic_log import Row, digest, log_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
BROKER = "broker-0"
MOVES = 10
_SETTINGS = {**SETTINGS, "webhooks.allowed_networks": '["127.0.0.0/8"]'}


class Drill:
    """Three replicas with as many controllers, and the commands of an operator."""

    def __init__(self, directory: Path, rule: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.place, self.key = directory / "backups", directory / "backup.key"
        saved = {"backup.place": str(self.place), "backup.key_file": str(self.key)}
        settings = {**_SETTINGS, **saved}
        self.cluster = ReplicatedProcesses(directory, rule, replicas=3, gateways=2, controllers=3, settings=settings)
        self._capsys = capsys
        self.command("store", "backup", "key", str(self.key), at_gateway=False)

    def command(self, *words: str, at_gateway: bool = True) -> str:
        """Run a command that is to succeed; what it printed."""
        server = ["--server", f"http://{self.cluster.gateways[0].address('http')}"] if at_gateway else []
        before = self._capsys.readouterr().out
        code = run([*words, *server])
        told = self._capsys.readouterr()
        print(before, end="")  # the seed, and the like
        assert code == 0, f"{' '.join(words)}: {told.out}{told.err}"
        return told.out

    def doors(self, series: str = "") -> EveryDoorProcess:
        return EveryDoorProcess([gateway.ports for gateway in self.cluster.gateways], series=series)

    # -- backups -------------------------------------------------------------------------------------------------------

    def backup(self) -> dict[str, Any]:
        [found] = json.loads(self.command("cluster", "backup", "--json"))["value"]
        assert found["broker"] == BROKER and found["key"], found
        return dict(found)

    def of_backup(self, word: str, *flags: str) -> dict[str, Any]:
        place = [str(self.place), "--broker", BROKER, "--key-file", str(self.key)]
        found = self.command("store", "backup", word, *place, *flags, "--json", at_gateway=False)
        return dict(json.loads(found))

    def rows_before(self, end: int, data_dir: Path) -> list[Row]:
        """The topic as the log of a directory has it, before an offset."""
        wanted = ["--topic", TOPIC, "--kind", "message", "--to", str(end), "--bodies", "--json"]
        lines = self.command("store", "dump", "--data-dir", str(data_dir), *wanted, at_gateway=False).splitlines()
        found = [(each, place) for each in map(json.loads, lines) for place in (each, *each.get("further", ()))]
        return [
            (TOPIC, place["queue"], place["queueOffset"], each["body"].encode())
            for each, place in found
            if place["topic"] == TOPIC
        ]

    def rows(self) -> list[Row]:
        """The topic as the brokers have it."""
        place = StoreLocation(name_servers=(self.cluster.name_servers[0].address("nameserver"),))
        with closing(open_reader(place)) as reader:
            return log_of(reader, [TOPIC])

    # -- disks ---------------------------------------------------------------------------------------------------------

    def lose_all_disks(self) -> None:
        controllers = [Path(self.cluster.name_servers[0].settings["controller.data_dir"])]
        controllers += [each.data_dir for each in self.cluster.controllers]
        for directory in [*controllers, *(each.data_dir for each in self.cluster.brokers)]:
            shutil.rmtree(directory)

    def wait_alike(self) -> None:
        """Return when the replicas have the same log, byte for byte."""
        addresses = [each.address("broker") for each in self.cluster.brokers]

        def differences() -> list[Any]:
            return asyncio.run(compare(addresses, LinkSettings())).differences

        wait_until(lambda: not differences(), lambda: f"the logs are alike: {differences()}")


@dataclass(frozen=True, slots=True)
class Saved:
    """Two backups with a kill of the master between them.  `known`: some time before the last one; `confirmed`: as it
    began; `after`: as it was done; `end`: of what it has of the log."""

    known: Record
    confirmed: set[str]
    after: Record
    end: int


def _saved_twice(drill: Drill, doors: EveryDoorProcess) -> Saved:
    cluster = drill.cluster
    doors.goes_on()
    first = drill.backup()
    master = cluster.master()
    cluster.replica(master).kill()
    doors.goes_on()
    cluster.replica(master).start()
    cluster.wait_in_sync(3)
    known = doors.record()
    doors.goes_on()  # what was acknowledged until then is durable
    confirmed = doors.record().confirmed
    last = drill.backup()
    after = doors.record()
    assert last["to"] > first["to"]
    return Saved(known, confirmed, after, last["to"])


@pytest.mark.failure_also("All disks of a group are lost, there is a backup")
@pytest.mark.parametrize("rule", ["in-sync", "2-3"])
def test_a_group_under_load_of_every_door_goes_back_to_its_backup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rule: str
) -> None:
    drill, keeper = Drill(tmp_path, rule, capsys), seeded().choice([1, 2, 3])
    with drill.cluster as cluster:
        cluster.wait_in_sync(3)
        with drill.doors() as doors:
            saved = _saved_twice(drill, doors)
            doors.goes_on()
            cluster.kill()
            last = doors.record()
        data_dir = cluster.replica(keeper).data_dir
        of_old = drill.rows_before(saved.end, data_dir)
        drill.lose_all_disks()
        assert drill.of_backup("verify")["problems"] == []
        told = drill.of_backup("restore", "--data-dir", str(data_dir))
        assert told["to"] == saved.end and told["store"] != told["was"]
        cluster.start()
        cluster.wait_in_sync(3)
        rows = drill.rows()
        assert digest(rows) == digest(of_old)
        names = Counter(row[3].decode() for row in rows)
        lost, phantom = saved.confirmed - names.keys(), names.keys() - last.sent
        doubled = {name for name, times in names.items() if times > 1} - last.twice
        with drill.doors("again") as doors:
            again, found = _drained(doors, names.keys(), saved, last.twice)
        drill.wait_alike()
    counts = {"lost": len(lost), "phantom": len(phantom), "duplicated": len(doubled) + sum(map(len, again.values()))}
    tell(f"back to a backup, every door, {rule}", messages=len(names) + found.messages, faults=2, **counts)
    assert not lost, f"{len(lost)} confirmed before the backup began: {sorted(lost)}"
    assert not doubled and not phantom, (doubled, phantom)
    assert not again, f"acknowledged before the backup began, and there again: {again}"
    assert found.is_clean, found


def _drained(
    doors: EveryDoorProcess, names: Iterable[str], saved: Saved, twice: set[str]
) -> tuple[dict[str, list[str]], Findings]:
    """What came again of what was acknowledged in time, and what else is wrong, once all that is owed was taken.

    `names`: what the backup has; `twice`: what may be in it so.
    """
    stored = set(names)
    readers = [reader for reader in saved.known.taken if reader not in AT_LEAST_ONCE]
    owed = {reader: stored if _is_tail(reader) else stored - saved.after.taken[reader] for reader in readers}

    def missing() -> dict[str, set[str]]:
        taken = doors.record().taken
        return {reader: left for reader, wanted in owed.items() if (left := wanted - taken[reader])}

    doors.goes_on()
    wait_until(lambda: not missing(), lambda: f"what the backup has for them reaches all: {missing()}", LONG_SECONDS)
    found = doors.finish()
    settled = {reader: saved.known.settled[reader] for reader in readers if not _is_tail(reader)}
    taken = doors.record().taken
    again = {reader: sorted(gone & taken[reader]) for reader, gone in settled.items() if gone & taken[reader]}
    found.phantom = _without(stored, found.phantom)
    found.repeated = _without(twice, found.repeated)
    found.disordered = _without(twice, found.disordered)
    return again, found


def _is_tail(reader: str) -> bool:
    """True for who reads the whole topic, and acknowledges nothing."""
    return reader.startswith("tail")


def _without(allowed: set[str], found: dict[str, list[str]]) -> dict[str, list[str]]:
    left = {reader: [name for name in names if name not in allowed] for reader, names in found.items()}
    return {reader: names for reader, names in left.items() if names}


@pytest.mark.failure_also("The mastership is moved by hand")
@pytest.mark.parametrize("rule", ["in-sync", "2-3"])
def test_every_door_through_moves_by_controllers(tmp_path: Path, capsys: pytest.CaptureFixture[str], rule: str) -> None:
    """An election is asked for as soon as the one before is done, whoever is wanted, or nobody in particular."""
    drill = Drill(tmp_path, rule, capsys)
    with drill.cluster as cluster:
        cluster.wait_in_sync(3)
        with drill.doors() as doors:
            doors.goes_on()
            before = doors.look()
            for number in range(MOVES):
                old = cluster.master()
                wanted = 0 if number % 4 == 3 else old % 3 + 1
                told = drill.command("cluster", "elect", BROKER, *(["--to", str(wanted)] if wanted else []))
                now = cluster.master()
                assert now == wanted if wanted else now not in (0, old), f"{old} was master, wanted {wanted}: {told}"
                assert f"replica {now} is master" in told
                if number % 2:
                    doors.goes_on(3)
            doors.goes_on()
            after = doors.look()
            cluster.wait_in_sync(3)
            found = doors.finish()
        drill.wait_alike()
        errors = [line for gateway in cluster.gateways for line in gateway.log_text().splitlines() if "[error" in line]
    tell(f"every door through moves by controllers, {rule}", messages=found.messages, faults=MOVES, **found.counts())
    assert found.is_clean, found
    for what in ("connections", "refused"):
        assert after[what] == before[what], f"{what}, through moves"
    assert not errors
