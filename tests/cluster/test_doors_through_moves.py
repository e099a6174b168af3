"""Every door with real clients while the mastership of a broker moves: by hand, and after a kill."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.doors.every_door import SETTINGS
from tests.support.doors.every_door_process import EveryDoorProcess
from tests.support.processes.replicated_processes import ReplicatedProcesses
from tests.support.soak_table import tell

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(300)]


@pytest.mark.failure_also("The master dies, without controllers")
@pytest.mark.parametrize("rule", ["in-sync", "2-3"])
def test_every_door_through_a_move_and_a_kill(tmp_path: Path, rule: str) -> None:
    settings = {**SETTINGS, "webhooks.allowed_networks": '["127.0.0.0/8"]'}
    with ReplicatedProcesses(tmp_path, rule, replicas=3, gateways=2, settings=settings) as cluster:
        cluster.wait_in_sync(3)
        with EveryDoorProcess([gateway.ports for gateway in cluster.gateways]) as doors:
            doors.goes_on()
            before = doors.look()
            master = cluster.master()
            cluster.elect(to=master % 3 + 1)
            doors.goes_on()
            after = doors.look()
            master = cluster.master()
            cluster.replica(master).kill()
            cluster.elect(without=[master] if rule == "in-sync" else [])
            doors.goes_on()
            cluster.replica(master).start()
            cluster.wait_in_sync(3)
            found = doors.finish()
            print(json.dumps(doors.look()))
        tell(f"every door through a move and a kill, {rule}", messages=found.messages, faults=2, **found.counts())
        assert found.is_clean, found
        for what in ("connections", "refused"):
            assert after[what] == before[what], f"{what}, through a move"
        for gateway in cluster.gateways:
            assert "[error" not in gateway.log_text()
