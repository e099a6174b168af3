"""Contract row 15: every door publishes and consumes while whatever there is gets killed; nothing grows."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support.doors.load import Load
from tests.support.processes.deployment import ClusterProcesses
from tests.support.processes.server import Process
from tests.support.seed import seeded
from tests.support.waiting import wait_until

SECONDS = float(os.environ.get("ENTREPOT_TEST_SOAK_SECONDS", "15"))
MEMORY_MARGIN = 48 << 20
SOCKETS_MARGIN = 8


@pytest.mark.failure_also("A broker's process dies, again and again")
@pytest.mark.soak
@pytest.mark.xdist_group("cluster")
@pytest.mark.timeout(300 + 2 * SECONDS)
def test_random_kills_of_everything_lose_nothing_and_leave_nothing_behind(tmp_path: Path) -> None:
    rng = seeded()
    with ClusterProcesses(tmp_path, name_servers=2, gateways=2) as cluster:
        before = {process.name: _held(process) for process in cluster.all}
        load = Load(cluster.gateways)
        load.begin(http=1, mqtt=1, consumers=3, subscribers=2)
        try:
            kills = 0
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                time.sleep(rng.uniform(0.3, 2.0))  # the moment of the crash is what is random here
                victim = rng.choice(cluster.all)
                print(f"{time.monotonic() - end + SECONDS:.1f} s: {victim.name}")
                kills += 1
                victim.kill()
                victim.start()
            wait_until(load.made(50), "producers go on")
            report = load.finish("random kills of everything", kills)
        finally:
            load.stop()
        assert report.is_clean, report
        assert load.promises.confirmed <= load.promises.ids.keys()
        for process in cluster.all:
            memory, sockets = before[process.name]
            assert process.resident_bytes() - memory < MEMORY_MARGIN, process.name
            wait_until(lambda p=process, s=sockets: p.open_sockets() <= s + SOCKETS_MARGIN, f"{process.name}: sockets")


def _held(process: Process) -> tuple[int, int]:
    return process.resident_bytes(), process.open_sockets()
