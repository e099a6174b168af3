"""Answers of gateways of another version: the others' rows are shown, and it is named."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.operations.row.gathered import OTHER_VERSION, found_anywhere, merged_page, readable
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.shapes import Part
from entrepot.gateway.peers.gathered import Gathered


class Row(Part, frozen=True):
    id: str
    in_flight: int
    gateway: str


class Peers:
    name = "a"

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    async def gather(self, view: str, arguments: object) -> Gathered:
        return Gathered(self._answers, {"z": "no answer within 1.5 s"})


def page(**row: Any) -> dict[str, Any]:
    return {"value": [row], "next": None}


ODD: list[Any] = [
    page(id="o"),
    page(id="o", inFlight=None),
    page(id="o", inFlight="many"),
    {"rows": []},
    {"value": None},
    None,
]


@pytest.mark.parametrize("odd", ODD)
async def test_the_others_are_shown_and_it_is_named(odd: Any) -> None:
    peers = Peers(a=page(id="x", inFlight=1, added=7), b=odd)
    found = await merged_page(cast("Any", peers), "rows", {}, Row, limit=9)
    assert found.value == [Row("x", 1, "a")], "a member that is not known here is left out"
    assert (found.answered.asked, found.answered.answered) == (3, 1)
    assert [(each.name, each.reason) for each in found.answered.missing] == [
        ("b", OTHER_VERSION), ("z", "no answer within 1.5 s"),
    ]  # fmt: skip


async def test_one_thing_told_otherwise_is_unavailable() -> None:
    missing = MissingError("client-not-found", "The client does not exist", "there is no client")

    async def ask(answer: Any) -> Row:
        return await found_anywhere(cast("Any", Peers(a=None, b=answer)), "row", {}, Row, missing)

    assert await ask({"id": "x", "inFlight": 2}) == Row("x", 2, "b")
    with pytest.raises(EntrepotError, match="gateway b: its answer is of another version") as refused:
        await ask({"id": "x"})
    assert refused.value.code is Code.UNAVAILABLE


def test_what_can_be_shown_stays() -> None:
    found = Gathered({"a": page(id="x", inFlight=1), "b": page(id="y", inFlight=2)})
    assert msgspec.to_builtins(readable(found, Row).answers) == found.answers
