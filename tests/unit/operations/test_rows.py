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
from entrepot.gateway.cli.errors import CommandError
from entrepot.gateway.cli.noun_commands import commands_of, path_of
from entrepot.gateway.http.documents.of_table import paths_of
from entrepot.gateway.http.requests.serving import _encoded
from entrepot.gateway.operations.row.operation import Noun, Words
from entrepot.gateway.operations.row.option_texts import placement
from entrepot.gateway.operations.row.reading import read_body
from entrepot.gateway.operations.row.rights import SUPER_USERS
from entrepot.gateway.operations.row.schema import Schemas
from entrepot.gateway.operations.row.shapes import Body, Continued, Created, Flag, PlainName, Query, Shown, shown_as


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


class ThingPut(Body, frozen=True):
    """New state of a thing."""

    size: Annotated[int | UnsetType | None, Flag("Size.")] = UNSET
    weight: Annotated[Annotated[float, Meta(ge=0, le=1)] | UnsetType, Flag("Weight.")] = UNSET
    parts: Annotated[dict[str, int] | UnsetType, Flag("Parts.", "NAME=N", "--part", placement, is_many=True)] = UNSET
    is_deep: Annotated[bool | UnsetType, Flag("Deep.", name="--deep")] = UNSET


class ThingPutAsked(Query, frozen=True):
    confirm: Annotated[str | None, Flag("Be sure.", name="--sure", sends="yes")] = None


class Move(Body, frozen=True):
    """Where a thing goes."""

    to: Annotated[str, Flag("Place.", name="PLACE")]


class ThingsFound(Query, frozen=True):
    find: Annotated[str, Flag("Part of the names.")] = ""


class ThingsAsked(ThingsFound, frozen=True):
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

    @THINGS.put(
        "/{name}", "putThing", "Put", SUPER_USERS,
        words=(
            Words("create", "Create.", outcome="thing {name} is there"),
            Words("update", "Change.", outcome="thing {name} of {answer[name]}", must_exist=True),
        ),
    )  # fmt: skip
    async def put(self, name: PlainName, query: ThingPutAsked, body: ThingPut) -> ThingShown:
        return ThingShown(name)

    @THINGS.post(
        "/{name}:move", "moveThing", "Move", SUPER_USERS,
        words=Words("move", "Move.", confirm="Move {name} to {to}?", tables=lambda told: [(("is",), [[told["name"]]])]),
    )  # fmt: skip
    async def move(self, name: PlainName, body: Move) -> ThingShown:
        return ThingShown(name)

    @THINGS.get(
        ":all", "listAllThings", "List", SUPER_USERS,
        words=(
            Words("all", "All.", columns=("title",), cells=("name",), whole=9),
            Words("paged", "Paged.", columns=("name",), is_paged=True),
        ),
    )  # fmt: skip
    async def all(self, query: ThingsFound) -> Continued[ThingShown]:
        return Continued([], None)


def test_a_plain_row_is_in_no_namespace() -> None:
    assert [len(row.templates) for row in THINGS.operations] == [2, 2, 1, 2, 2, 2]


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
        if method != "GET":
            return {"name": "bolt"} if body is not None else None
        return {"value": [{"name": "bolt"}], "next": None if query and "after" in query else "bolt"}

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


def test_options_are_read_by_the_kind_of_their_field(command: Callable[..., tuple[list[Any], str]]) -> None:
    for given, body in {
        ("--size", "none"): {"size": None},
        ("--size", "3", "--weight", "0.5"): {"size": 3, "weight": 0.5},
        ("--part", "a=1", "--part", "b=2"): {"parts": {"a": 1, "b": 2}},
        ("--no-deep",): {"isDeep": False},
    }.items():
        sent, output = command("create", "a", *given)
        assert (sent, output) == ([("PUT", "/api/v1/things/a", None, body)], "thing a is there\n")
    for wrong, told in {
        ("--size", "x"): "--size x: must be a number or none",
        ("--part", "a=1", "--part", "a=2"): "--part a=2: write it as BROKER=QUEUES, each broker once",
    }.items():
        with pytest.raises(CommandError, match=f"^{told}$"):
            command("create", "a", *wrong)
    assert "0<=x<=1" in command("create", "--help")[1]


def test_an_update_asks_first_if_there_is_something(command: Callable[..., tuple[list[Any], str]]) -> None:
    sent, output = command("update", "a", "--sure", "-n", "team")
    path = "/api/v1/namespaces/team/things/a"
    assert sent == [("GET", path, None, None), ("PUT", path, {"confirm": "yes"}, {})]
    assert output == "thing a of bolt\n"


def test_fields_may_be_arguments(command: Callable[..., tuple[list[Any], str]]) -> None:
    sent, output = command("move", "a", "here", "--yes")
    assert sent == [("POST", "/api/v1/things/a:move", None, {"to": "here"})] and "bolt" in output
    assert json.loads(command("move", "a", "here", "--yes", "--json")[1]) == {"name": "bolt"}
    with pytest.raises(CommandError, match="Move a to here"):
        command("move", "a", "here")


def test_pages_are_one_list(command: Callable[..., tuple[list[Any], str]]) -> None:
    sent, output = command("all", "--find", "b", "--json")
    assert [query for _, _, query, _ in sent] == [
        {"find": "b", "limit": 9},
        {"find": "b", "limit": 9, "after": "bolt"},
    ]
    assert json.loads(output) == [{"name": "bolt"}, {"name": "bolt"}]
    assert "title" in command("all")[1]
    assert [query for _, _, query, _ in command("paged")[0]] == [None, {"after": "bolt"}]
    assert [query for _, _, query, _ in command("paged", "--find", "b")[0]] == [{"limit": 100, "find": "b"}]


def test_a_command_by_hand_has_the_path_of_a_row() -> None:
    assert path_of(THINGS, "moveThing", "team", name="a/b") == "/api/v1/namespaces/team/things/a%2Fb:move"


def refusal(raw: bytes) -> str:
    with pytest.raises(EntrepotError) as refused:
        read_body(msgspec.json.Decoder(ThingChange), raw)
    return refused.value.message


def test_null_is_refused_by_that_word_where_a_field_may_be_omitted() -> None:
    assert refusal(b'{"size": null}') == "size: must not be null"
    assert refusal(b'{"isDeep": null}') == "isDeep: Input should be a valid boolean"


def test_a_body_that_is_nested_too_deep_is_refused() -> None:
    assert "nested too deep" in refusal(b'{"more": ' + b"[" * 100_000)
