"""Brokers and controllers as their operations tell and change them: without HTTP, and without a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from entrepot.domain.access.model import Origin, Principal
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import Store
from entrepot.domain.ports.cluster import BrokerStatus, ControllerStatus, ElectionView, LogCondition, ReplicaView
from entrepot.domain.replication.control import ReplicaChange
from entrepot.gateway.operations.nouns.brokers import BrokerChange, Brokers, Election, ReplicaCounting
from entrepot.gateway.operations.nouns.controllers import Controllers, NewController
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.shapes import PlainName, WholeName
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore

VIEW = ReplicaView(2, "r:2", "slave", True, log=LogCondition(diverged=((3, 9),), copies_from=1))
BROKER = BrokerStatus("b", 0, "r:1", "", True, False, True, replicas=(VIEW,), election=ElectionView(3, "why", 0, 3, 2))


class Control:
    """A cluster's control that keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def name_servers(self) -> dict[str, bool]:
        return {"n:1": True}

    async def brokers(self) -> list[BrokerStatus]:
        return [BROKER]

    async def drain(self, name: str, *, is_draining: bool) -> BrokerStatus:
        self.asked.append(("drain", name, is_draining))
        return BROKER

    async def elect(self, name: str, to: int, without: list[int], *, is_unclean: bool) -> BrokerStatus:
        self.asked.append(("elect", name, to, without, is_unclean))
        return BROKER

    async def change_replica(self, name: str, replica: int, change: ReplicaChange) -> BrokerStatus:
        self.asked.append((change, name, replica))
        return BROKER

    async def leave(self, name: str) -> None:
        self.asked.append(("leave", name))

    async def controllers(self) -> list[ControllerStatus]:
        return [ControllerStatus(1, "c:1", "leads", "")]

    async def change_controllers(self, remove: int, add: int, address: str) -> None:
        self.asked.append(("controllers", remove, add, address))


def over(control: Control) -> Store:
    return cast("Store", SimpleNamespace(operations=control))


def asked() -> Asked:
    return Asked({}, {}, Principal("ann", Origin.PASSWORD, "192.0.2.1"))


async def test_brokers_are_told_with_their_replicas() -> None:
    found = msgspec.to_builtins(await Brokers(over(Control())).listed())
    assert found["nameServers"] == [{"address": "n:1", "isAvailable": True}]
    [broker] = found["value"]
    assert (broker["problem"], broker["rule"], broker["election"]["reason"]) == (None, None, "why")
    assert broker["replicas"][0]["log"]["diverged"] == [{"from": 3, "to": 9}]


async def test_changes_reach_the_cluster_and_the_audit() -> None:
    control = Control()
    brokers, controllers, name = Brokers(over(control)), Controllers(over(control)), PlainName("b")
    told = []
    for change in (
        lambda it: brokers.put(it, name, BrokerChange(True)),
        lambda it: brokers.put(it, name, BrokerChange(False)),
        lambda it: brokers.elect(it, name, Election(2, [1, 3], True)),
        lambda it: brokers.put_replica(it, name, WholeName(4), ReplicaCounting(True)),
        lambda it: brokers.put_replica(it, name, WholeName(4), ReplicaCounting(False)),
        lambda it: brokers.delete_replica(it, name, WholeName(4)),
        lambda it: controllers.add(it, NewController(4, "c:4", 2)),
    ):
        request = asked()
        await change(request)
        told.append(request.told)
    await controllers.delete(WholeName(3))
    await brokers.delete(name)
    assert control.asked == [
        ("drain", "b", True),
        ("drain", "b", False),
        ("elect", "b", 2, [1, 3], True),
        (ReplicaChange.OBSERVER, "b", 4),
        (ReplicaChange.ADD, "b", 4),
        (ReplicaChange.REMOVE, "b", 4),
        ("controllers", 2, 4, "c:4"),
        ("controllers", 3, 0, ""),
        ("leave", "b"),
    ]
    assert told == [
        (("", "to be drained"),),
        (("", "no longer to be drained"),),
        (("", "to 2 without 1, 3 unclean"),),
        (("broker b", "replica 4 is to be an observer"),),
        (("broker b", "replica 4 is to count"),),
        (("broker b", "replica 4 will no longer count"),),
        (("controller 4", "at c:4 in place of 2"),),
    ]


async def test_a_wrong_address_adds_nothing() -> None:
    control = Control()
    with pytest.raises(EntrepotError, match="'c' is not host:port"):
        await Controllers(over(control)).add(asked(), NewController(4, "c"))
    assert control.asked == []


async def test_a_store_of_this_process_has_none() -> None:
    store = MemoryStore(ManualClock())
    assert (await Brokers(store).listed()).value == []
    assert (await Controllers(store).listed()).value == []
    with pytest.raises(EntrepotError) as refused:
        await Brokers(store).delete(PlainName("b"))
    assert refused.value.code is Code.UNSUPPORTED
