"""One server whose machine loses power, again and again under load: what was confirmed is there.

A killed process leaves what it wrote to the system; here that is gone, too, unless it was synced.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from entrepot.store_client.blocking import StoreLocation, open_reader
from tests.support.brokers.forgetful_disk import ForgetfulDisk, Kind, Losses, usable_disk
from tests.support.doors.load import TOPIC, Load
from tests.support.processes.server import ServerProcess
from tests.support.seed import seeded
from tests.support.spark.topic_log import log_of
from tests.support.waiting import wait_until
from tests.tiers.marks import scaled

ROUNDS = scaled(1, 100)
STEPS_OF_A_START = 60
STEPS = scaled(50, 500)
SETTINGS = {
    "store.checkpoint_interval_seconds": "1",
    "store.segment_size_bytes": str(2 << 20),
    "store.preallocate_bytes": str(1 << 20),
    "store.reserve_bytes": str(1 << 20),
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[ForgetfulDisk]:
    with usable_disk(tmp_path / "disk") as made:
        yield made


@pytest.fixture
def server(tmp_path: Path, disk: ForgetfulDisk) -> Iterator[ServerProcess]:
    made = ServerProcess(tmp_path, SETTINGS)
    made.data_dir = disk.place / "data"
    try:
        yield made
    finally:
        made.signal_kill()


def stored(server: ServerProcess) -> Counter[str]:
    """How often each message is in the log of a server that does not run."""
    if not server.data_dir.exists():
        return Counter()
    with closing(open_reader(StoreLocation(data_dir=str(server.data_dir)))) as reader:
        topics = [TOPIC] if TOPIC in reader.topics() else []
        return Counter(json.loads(row[3])["id"] for row in log_of(reader, topics))


def cut_power(server: ServerProcess, disk: ForgetfulDisk, rng: Random | None) -> Losses:
    server.signal_kill()
    losses = disk.cut_power(rng)
    server.kill()
    return losses


def start_through_cuts(server: ServerProcess, disk: ForgetfulDisk, rng: Random) -> int:
    """Start it; power is lost meanwhile once, if that is as far.  Returns how often it was."""
    disk.stop_after(rng.randrange(STEPS_OF_A_START))
    server.begin()
    wait_until(lambda: disk.has_stopped or server.ready_file.exists() or not server.is_running, server.log_text)
    disk.go_on()
    if disk.has_stopped:
        cut_power(server, disk, rng.choice([rng, None]))
        server.start()
        return 1
    server.wait_ready()
    return 0


@pytest.mark.scaled
@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_nothing_confirmed_is_lost_by_cuts_of_power(server: ServerProcess, disk: ForgetfulDisk) -> None:
    rng, total = seeded(), Losses()
    faults = start_through_cuts(server, disk, rng)
    load = Load([server])
    load.begin(http=scaled(1, 2), mqtt=scaled(1, 2), consumers=scaled(1, 2))
    try:
        for _ in range(ROUNDS):
            wait_until(load.made(20), server.log_text)
            disk.stop_after(rng.randrange(STEPS))
            wait_until(lambda: disk.has_stopped, "it writes")
            time.sleep(rng.uniform(0, 0.1))  # in which it says what it can say without its disk
            losses = cut_power(server, disk, rng.choice([rng, None]))
            total.names, total.sectors = total.names + losses.names, total.sectors + losses.sectors
            faults += 1
            if scaled(False, True):
                faults += start_through_cuts(server, disk, rng)
            else:
                server.start()
        report = load.finish("one machine that loses power", faults)
    finally:
        load.stop()
    assert server.stop() == 0
    print(f"power cut {faults} times, forgotten: {total}")
    assert report.is_clean, report
    found = stored(server)
    assert load.promises.confirmed - found.keys() == set(), "lost"
    assert found.keys() - load.promises.sent == set(), "phantom"
    assert [name for name, count in found.items() if count > 1] == []
    assert total.sectors > 0 or ROUNDS == 1, "there was nothing to forget"


@pytest.mark.parametrize("ignored", ["files", "directories"])
def test_a_disk_that_does_not_sync_is_seen(server: ServerProcess, disk: ForgetfulDisk, ignored: Kind) -> None:
    """The planted fault: a test that finds nothing here would find nothing at all.

    Names are synced at the beginning, bytes all the time.
    """
    if ignored == "files":
        server.start()
    disk.ignore_syncs(ignored)
    if not server.is_running:
        server.start()
    load = Load([server])
    load.begin(consumers=0)
    try:
        wait_until(load.made(50), "producers go on")
        cut_power(server, disk, None)
    finally:
        load.stop()
    lost = load.promises.confirmed - stored(server).keys()
    assert lost, "nothing was lost"
