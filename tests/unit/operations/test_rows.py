"""What a row says beside its path: where it is, what it makes, what it documents, and its command."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import UNSET, Meta, UnsetType
from typer.testing import CliRunner

from entrepot.domain.errors import EntrepotError
from entrepot.gateway.cli.client import Client
from entrepot.gateway.cli.noun_commands import commands_of
from entrepot.gateway.http.documents.of_table import paths_of
from entrepot.gateway.http.serving import _encoded
from entrepot.gateway.operations.operation import Noun, Words
from entrepot.gateway.operations.reading import read_body
from entrepot.gateway.operations.rights import SUPER_USERS
from entrepot.gateway.operations.schema import Schemas
from entrepot.gateway.operations.shapes import Body, Continued, Created, Flag, PlainName, Query, Shown, shown_as


class ThingShown(Shown, frozen=True):
    """A thing"""

    name: str


shown_as(ThingShown("bolt"))


class ThingChange(Body, frozen=True):
    """Change of a thing."""

    more: Any | UnsetType = UNSET
    size: int | UnsetType = UNSET
    place: str | None = None
    is_deep: bool = False


class ThingsAsked(Query, frozen=True):
    find: Annotated[str, Flag("Part of the names.")] = ""
    limit: Annotated[int, Meta(ge=1, le=9), Flag("Number of things.")] = 5


THINGS = Noun("things", "/things", "thing", "Things.", is_in_namespaces=True)


class Things:
    @THINGS.get(
        "",
        "listThings",
        "List",
        SUPER_USERS,
        words=Words("list", "List.", columns=("name",), cells=lambda each: (each["name"],), continued_by="--after"),
    )
    async def listed(self, query: ThingsAsked) -> Continued[ThingShown]:
        return Continued([], None)

    @THINGS.post(":make", "makeThing", "Make", SUPER_USERS, outcome="It is there")
    async def make(self, body: ThingChange) -> Created[ThingShown]:
        return Created(ThingShown("bolt"))

    @THINGS.delete(
        "/{id}", "forgetThing", "Forget", SUPER_USERS, is_plain=True,
        words=Words("forget", "Forget.", outcome="{id} is forgotten", done="forgotten"),
    )  # fmt: skip
    async def forget(self, id_: PlainName) -> None:
        """Forget it."""


def test_a_plain_row_is_in_no_namespace() -> None:
    assert [len(row.templates) for row in THINGS.operations] == [2, 2, 1]


def test_what_is_made_is_answered_with_201() -> None:
    told = paths_of(THINGS.operations, Schemas())["/api/v1/things:make"]["post"]
    assert "200" not in told["responses"] and told["responses"]["201"]["description"] == "It is there"
    assert told["responses"]["201"]["content"]["application/json"]["example"] == {"name": "bolt"}
    status, _, body = _encoded(Created(ThingShown("bolt")))
    assert (status, body) == (201, b'{"name":"bolt"}')


def test_a_body_tells_its_defaults() -> None:
    properties = Schemas().of(ThingChange)["properties"]
    assert {name: told.get("default", "none") for name, told in properties.items()} == {
        "more": "none",
        "size": "none",
        "place": None,
        "isDeep": False,
    }


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[Any], str]]:
    """The commands of things: what a server is asked, and what they print."""
    sent: list[Any] = []

    def request(self: Client, method: str, path: str, *, query: Any = None, body: Any = None) -> Any:
        sent.append((method, path, query, body))
        return {"value": [{"name": "bolt"}], "next": "bolt"} if method == "GET" else None

    monkeypatch.setattr(Client, "request", request)

    def run(*arguments: str) -> tuple[list[Any], str]:
        sent.clear()
        output = CliRunner().invoke(commands_of(THINGS), arguments, catch_exceptions=False).output
        return list(sent), output

    return run


def test_the_default_of_an_option_is_that_of_its_field(command: Callable[..., tuple[list[Any], str]]) -> None:
    assert command("list")[0] == [("GET", "/api/v1/things", {"limit": 5}, None)]
    [(_, _, query, _)], _ = command("list", "--find", "b", "--limit", "9")
    assert query == {"find": "b", "limit": 9}
    assert "default: 5" in command("list", "--help")[1]


def test_a_list_tells_how_it_goes_on(command: Callable[..., tuple[list[Any], str]]) -> None:
    assert "more: --after bolt" in command("list")[1]
    assert json.loads(command("list", "--json")[1]) == {"value": [{"name": "bolt"}], "next": "bolt"}


def test_a_change_without_an_answer_is_told_by_the_names_of_its_path(
    command: Callable[..., tuple[list[Any], str]],
) -> None:
    sent, output = command("forget", "a/b", "--json")
    assert sent == [("DELETE", "/api/v1/things/a%2Fb", None, None)]
    assert json.loads(output) == {"id": "a/b", "forgotten": True}
    assert command("forget", "a")[1] == "a is forgotten\n"
    assert "--namespace" in command("list", "--help")[1] and "--namespace" not in command("forget", "--help")[1]


def refusal(raw: bytes) -> str:
    with pytest.raises(EntrepotError) as refused:
        read_body(msgspec.json.Decoder(ThingChange), raw)
    return refused.value.message


def test_null_is_refused_by_that_word_where_a_field_may_be_omitted() -> None:
    assert refusal(b'{"size": null}') == "size: must not be null"
    assert refusal(b'{"isDeep": null}') == "isDeep: Input should be a valid boolean"


def test_a_body_that_is_nested_too_deep_is_refused() -> None:
    assert "nested too deep" in refusal(b'{"more": ' + b"[" * 100_000)
