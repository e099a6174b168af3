"""A cluster is brought from the version before to this one, and back, under load: both run side by side meanwhile.

The version before is a commit of this repository: the last one before a change of what parts tell each other.
`ENTREPOT_BEFORE` names another one.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from deploy.plan import Part
from deploy.rolling import Roll
from tests.cluster.test_rolling_restart import REFUSAL, Insisting, plan_of, restarting
from tests.support.doors.load import Load, door
from tests.support.processes.launcher import ROOT
from tests.support.processes.replicated_processes import ReplicatedProcesses
from tests.support.processes.server import Process
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(900)]

BEFORE = os.environ.get("ENTREPOT_BEFORE", "270ccf48")


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The tree of the version before."""
    packed = subprocess.run(["git", "archive", BEFORE], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"this clone does not have {BEFORE}: {packed.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(tmp_path / "before", filter="data")
    return tmp_path / "before"


def answering(gateway: Process) -> list[bool]:
    """Return for each gateway that this one knows whether it answers."""
    with door(gateway) as client:
        listed = client.get("/api/v1/gateways").json()["value"]
    return [each["silentSeconds"] is None for each in listed]


@pytest.mark.failure(
    "The version is changed, part by part, and changed back",
    group="Operators' mistakes and maintenance",
    does="No publish is refused.",
    lost="nothing",
)
def test_to_this_version_and_back_under_load(tmp_path: Path, before: Path) -> None:
    cluster = ReplicatedProcesses(tmp_path, "in-sync", replicas=3, gateways=2, controllers=3)
    for process in cluster.all:
        process.tree = before
    with cluster:
        cluster.wait_in_sync(3)
        plan, processes = plan_of(cluster)
        load = Load(cluster.gateways)
        load.begin(http=1, mqtt=1, consumers=2)
        insisting = Insisting(load)
        insisting.start()
        restart = restarting(processes)

        def changed_to(tree: Path, part: Part) -> None:
            processes[part.address].tree = tree
            restart(part)
            if part.role == "gateway":  # the one of the other version is known, and answers
                for gateway in cluster.gateways:
                    wait_until(lambda: answering(gateway) == [True, True], f"{gateway.name} knows both")  # noqa: B023

        try:
            for tree in (ROOT, before):
                Roll(plan, lambda part: changed_to(tree, part), print, patience=2 * PATIENCE_SECONDS).run()  # noqa: B023
            insisting.stop()
            report = load.finish("to this version and back", 2 * len(plan.part))
        finally:
            insisting.stop()
            load.stop()
        assert report.is_clean, report
        assert insisting.refused == []
        assert [each for each in load.promises.failures if REFUSAL.match(each)] == []
