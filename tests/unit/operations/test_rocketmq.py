"""RocketMQ clients as their operations tell them: without HTTP and gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from entrepot.domain.access.model import Principal
from entrepot.domain.errors import EntrepotError
from entrepot.gateway.messaging.test_message import RocketMqTestMessage
from entrepot.gateway.operations.nouns.rocketmq import RocketMqClients, RocketMqClientsAsked, RocketMqDisconnecting
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.shapes import PlainName
from entrepot.gateway.rocketmq.connected import RocketMqClient
from tests.support.clock import ManualClock
from tests.support.gateways.operations import NO_ANSWER, asked_by, beside, one_gateway
from tests.support.stores.model_store import MemoryStore


class Connected:
    """The clients of a gateway."""

    def __init__(self, *clients: RocketMqClient) -> None:
        self.there = list(clients)

    def clients(self) -> Iterator[RocketMqClient]:
        return iter(self.there)

    async def disconnect(self, client_id: str) -> int:
        before = len(self.there)
        self.there = [each for each in self.there if each.client_id != client_id]
        return before - len(self.there)

    async def send_test_message(self, given: RocketMqTestMessage, principal: Principal) -> bytes:
        raise NotImplementedError


def client(number: int, client_id: str, kind: str = "producer", topic: str = "orders") -> RocketMqClient:
    return RocketMqClient(number, client_id, "", "192.0.2.7", 1, kind, "", ((topic, ""),), "", "", "", None)


def operations(*clients: RocketMqClient) -> RocketMqClients:
    return RocketMqClients(one_gateway(MemoryStore(ManualClock())), Connected(*clients))


async def test_they_are_listed_by_pages_and_filters() -> None:
    found = operations(client(2, "b"), client(1, "b"), client(3, "a", "push-consumer", "x"))

    async def ids(**asked: Any) -> tuple[list[str], str | None]:
        page = await found.listed(RocketMqClientsAsked(**asked))
        return [each.id for each in page.value], page.next

    first, following = await ids(limit=2)
    assert first == ["a", "b"]
    assert following is not None
    assert await ids(limit=2, after=following) == (["b"], None)
    assert await ids(kind="push-consumer") == (["a"], None)
    assert await ids(topic="orders", contains="b") == (["b", "b"], None)
    assert await ids(user="bob") == await ids(group="g") == ([], None)
    [row] = (await found.listed(RocketMqClientsAsked(topic="x"))).value
    assert ([(each.name, each.filter) for each in row.topics], row.user, row.gateway) == ([("x", None)], None, "gw-1")
    with pytest.raises(EntrepotError, match="after: must be the value of `next`"):
        await ids(after="!")


async def test_those_that_were_there_are_told() -> None:
    found = operations(client(1, "a"), client(2, "b"), client(3, "c"))
    asked = asked_by()
    await found.disconnect(PlainName("a"), asked)
    assert asked.told == (("RocketMQ client a", ""),)
    asked = asked_by()
    outcomes = await found.disconnect_each(RocketMqDisconnecting(["c", "a", "b", "c"]), asked)
    assert [(each.id, each.disconnected) for each in outcomes.value] == [("c", True), ("a", False), ("b", True)]
    assert asked.told == (("RocketMQ client b", ""), ("RocketMQ client c", ""))


async def test_none_is_refused_and_told_by_no_entry() -> None:
    asked = asked_by()
    with pytest.raises(MissingError, match="'a' is not connected"):
        await operations().disconnect(PlainName("a"), asked)
    assert asked.told == ()
    peers = beside(one_gateway(MemoryStore(ManualClock())), {}, NO_ANSWER)
    with pytest.raises(EntrepotError, match="'a' is not connected, as far as known"):
        await RocketMqClients(peers, None).disconnect(PlainName("a"), asked)
