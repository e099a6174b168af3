"""Reports of a replica that reach controllers before its next beat."""

from __future__ import annotations

from pathlib import Path

from entrepot.broker.controller.liveness import Heard
from tests.replication.test_confirming import TWO_IN_SYNC
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.waiting import until


async def test_a_slave_that_has_joined_its_master_reports_at_once(tmp_path: Path) -> None:
    """An operator who sees it in sync may have it elected: by its last report it may be apart from its master."""
    async with ReplicatedGroup(tmp_path, TWO_IN_SYNC, controllers=1, lease=8.0) as group:
        await group.in_sync()
        number = 3 - group.master
        slave, controller = group.replicas[number], group.controllers.running[1]._controller
        assert controller is not None

        def heard() -> Heard:
            return controller.watched["group"].heard[number]

        await until(lambda: not heard().is_apart, "its reports come")
        assert slave._controllers._beating is not None and slave._following._link is not None
        slave._controllers._beating.cancel()
        slave._following._link._gone("by a test")
        await until(lambda: heard().is_apart, "it has told that it is apart")
        await until(lambda: not heard().is_apart, "it has told that it has joined again")
        slave._controllers._beat()
