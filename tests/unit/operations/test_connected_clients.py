"""Clients of all doors as their operations tell them: without sockets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from entrepot.domain.errors import EntrepotError
from entrepot.gateway.door.door import Door
from entrepot.gateway.door.shown import ConnectedClient, DoorFigures
from entrepot.gateway.operations.local_views.connected_clients import MAX_USES
from entrepot.gateway.operations.nouns.connected_clients import (
    ClientOfDoor,
    ConnectedClients,
    ConnectedClientsAsked,
    ConnectedDisconnecting,
)
from tests.support.clock import ManualClock
from tests.support.gateways.operations import NO_ANSWER, asked_by, beside, one_gateway
from tests.support.stores.model_store import MemoryStore


class Lines(Door):
    """A door that disconnects its clients."""

    name = "lines"

    def __init__(self, *clients: ConnectedClient) -> None:
        self.there, self.reasons = list(clients), list[str]()

    @property
    def connections(self) -> int:
        return len(self.there)

    def clients(self) -> list[ConnectedClient]:
        return self.there

    async def disconnect(self, client: str, reason: str) -> bool:
        before, self.there = self.there, [each for each in self.there if each.client != client]
        self.reasons.append(reason)
        return self.there != before


class Fixed(Door):
    """A door that disconnects none."""

    name = "fixed"

    def clients(self) -> list[ConnectedClient]:
        return [ConnectedClient("b", "bob")]


def operations(*doors: Door) -> ConnectedClients:
    return ConnectedClients(one_gateway(MemoryStore(ManualClock())), doors)


async def test_they_are_listed_by_pages_and_filters() -> None:
    found = operations(
        Lines(ConnectedClient("c"), ConnectedClient("b", address="x"), ConnectedClient("b", address="y")),
        Fixed(),
        Door(),
    )

    async def ids(**asked: Any) -> tuple[list[str], str | None]:
        page = await found.listed(ConnectedClientsAsked(**asked))
        return [f"{each.door} {each.id} {each.address or ''}".strip() for each in page.value], page.next

    whole = ["fixed b", "lines b x", "lines b y", "lines c"]
    assert await ids() == (whole, None)
    for limit in (1, 2, 3):
        read, following = await ids(limit=limit)
        while following is not None:
            more, following = await ids(limit=limit, after=following)
            read += more
        assert read == whole, limit
    assert await ids(door="lines", contains="c") == (["lines c"], None)
    assert await ids(user="bob") == (["fixed b"], None)
    assert await ids(door="mqtt") == ([], None)
    with pytest.raises(EntrepotError, match="after: must be the value of `next`"):
        await ids(after="!")


async def test_a_row_says_what_its_door_says() -> None:
    names = [f"t{number:02}" for number in range(MAX_USES + 1)]
    found = operations(Lines(ConnectedClient("a", "ann", "h:1", 1000, dict.fromkeys(names), 7, "group g")))
    [row] = (await found.listed(ConnectedClientsAsked())).value
    assert msgspec.to_builtins(row) == {
        "id": "a",
        "door": "lines",
        "user": "ann",
        "address": "h:1",
        "connectedSince": "1970-01-01T00:00:01.000Z",
        "uses": names[:MAX_USES],
        "useCount": MAX_USES + 1,
        "held": 7,
        "detail": "group g",
        "gateway": "gw-1",
    }
    assert (await operations(Fixed()).listed(ConnectedClientsAsked())).value[0].connected_since is None


async def test_those_that_were_there_are_disconnected_and_told() -> None:
    lines = Lines(ConnectedClient("a"), ConnectedClient("b"))
    wanted = [ClientOfDoor(*each) for each in (("lines", "b"), ("fixed", "b"), ("lines", "z"), ("none", "a"))]
    asked = asked_by()
    answer = await operations(lines, Fixed()).disconnect(ConnectedDisconnecting([*wanted, wanted[0]], "why"), asked)
    assert [(each.door, each.id, each.disconnected) for each in answer.value] == [
        ("lines", "b", True), ("fixed", "b", False), ("lines", "z", False), ("none", "a", False),
    ]  # fmt: skip
    errors = [msgspec.to_builtins(each).get("error") for each in answer.value]
    assert errors == [
        None, {"code": "UNSUPPORTED", "message": "the door 'fixed' disconnects no clients"}, None, None,
    ]  # fmt: skip
    assert [each.client for each in lines.there] == ["a"]
    assert lines.reasons == ["why", "why"]
    assert asked.told == (("lines client b", "why"),)


async def test_gateways_that_do_not_answer_are_named() -> None:
    peers = beside(one_gateway(MemoryStore(ManualClock())), {}, NO_ANSWER)
    page = await ConnectedClients(peers, [Lines(ConnectedClient("a"))]).listed(ConnectedClientsAsked())
    assert page.answered.answered < page.answered.asked


def test_a_door_has_figures_where_it_has_connections() -> None:
    assert Lines(ConnectedClient("a")).figures == DoorFigures(1)
    assert Fixed().figures is None
