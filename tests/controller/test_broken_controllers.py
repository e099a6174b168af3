"""A controller that cannot be opened, in the process of a name server, which goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.broker.controller.directory import ControllerDirectory
from entrepot.broker.controller.listener import BrokenController
from entrepot.broker.namesrv.server import NameServer
from entrepot.broker.remoting.listener import RemotingListener
from entrepot.broker.remoting.service import Service
from entrepot.broker.remoting.trust import WireTrust
from entrepot.broker.replication.controllers import Controllers
from entrepot.domain.cluster_trust import NO_TRUST
from entrepot.domain.errors import StoreFailedError
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.store_client.embedded import make_controller
from tests.support.brokers.controllers import listening
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.clock import ManualClock
from tests.support.waiting import until


async def test_a_broken_one_beside_a_name_server_is_away_and_no_word_on_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    async with ReplicatedGroup(tmp_path, Rule(RuleKind.IN_SYNC, 3, min_in_sync=2), controllers=3) as group:
        await group.in_sync()
        broken = next(number for number in (1, 2, 3) if number != group.controllers.leader)
        port = int(group.controllers.addresses[broken].rpartition(":")[2])
        await group.controllers.stop(broken)
        service = Service()
        BrokenController(broken, StoreFailedError("controller.json cannot be read"), service)
        listener = RemotingListener(service, listening(port), "name server", trust=WireTrust.of_server(NO_TRUST))
        await listener.start()
        note = Controllers._note
        monkeypatch.setattr(Controllers, "_note", lambda self, problem: (said.append(problem), note(self, problem))[1])
        replicas = list(group.replicas.values())
        links = [each._controllers._links[group.controllers.addresses[broken]] for each in replicas]
        await until(lambda: all(link.is_up for link in links), "replicas have found it")
        beats = len(said) + 60
        await until(lambda: len(said) >= beats, "they have reported often")
        assert not any(said)
        assert not any(each._controllers.problem for each in replicas)
        await listener.close()


async def test_a_directory_that_is_in_use_is_tried_again_by_who_starts_the_process(tmp_path: Path) -> None:
    """A predecessor that is ending has it: a name server that went on would have no controller for good."""
    held = ControllerDirectory(tmp_path, 1)
    name_server = NameServer(listening(), lease_seconds=5.0, cluster="", trust=NO_TRUST)
    with pytest.raises(StoreFailedError, match="is in use by process"):
        make_controller(
            name_server,
            ManualClock(),
            controller=1,
            addresses={1: "127.0.0.1:1"},
            data_dir=tmp_path,
            lease=1.0,
            cluster="",
            silence_seconds=5.0,
            trust=NO_TRUST,
        )
    held.close()
