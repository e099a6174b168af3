"""Shapes as the document tells them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from entrepot.gateway.http.documents.of_table import paths_of
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import SUPER_USERS
from entrepot.gateway.operations.row.schema import Schemas, example_of
from entrepot.gateway.operations.row.shapes import Body, Like, Part, Raw, Row, Shown, one_of, shown_as


class Head(Part, frozen=True):
    name: str
    kind: Annotated[str, one_of(("a", "b"))]


shown_as(Head("x", "a"))


class Whole(Head, frozen=True):
    parts: list[Annotated[dict[str, Any], Like(Head)]]
    size: Annotated[Any, Like(int | None)]


class RowShown(Head, Row, frozen=True):
    """A row"""


class WholeShown(Head, Shown, frozen=True):
    """The same as a whole"""


class Change(Body, frozen=True):
    """A change."""

    name: str
    seconds: Annotated[int, Meta(ge=1)] = 60
    note: str | None = None


HEAD = {"name": {"type": "string"}, "kind": {"type": "string", "enum": ["a", "b"]}}


def test_what_a_type_does_not_tell_is_told_beside_it() -> None:
    told = Schemas().of(Whole)["properties"]
    assert told["parts"]["items"] == {"type": "object", "properties": HEAD, "required": ["name", "kind"]}
    assert told["size"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}


def test_an_example_begins_with_that_of_the_shape_that_is_extended() -> None:
    first = {"name": "x", "kind": "a"}
    assert example_of(Whole) == {**first, "parts": [first], "size": None}


def test_a_row_requires_no_member() -> None:
    schemas = Schemas()
    schemas.of(RowShown)
    schemas.of(WholeShown)
    assert schemas.parts["Row"] == {"type": "object", "properties": HEAD, "description": "A row"}
    assert schemas.parts["Whole"]["required"] == ["name", "kind"]


def test_defaults_of_a_body_are_told() -> None:
    assert Schemas().of(Change)["properties"] == {
        "name": {"type": "string"},
        "seconds": {"type": "integer", "minimum": 1, "default": 60},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    }


@pytest.mark.parametrize(
    ("media_type", "example", "schema"),
    [
        ("text/csv", "a,b", {"type": "string"}),
        ("application/zip", "PK", {"type": "string", "format": "binary"}),
        ("application/x+json", {"format": "1"}, {"type": "object", "required": ["format"]}),
    ],
)
def test_a_raw_answer_is_told_by_its_media_type(media_type: str, example: Any, schema: dict[str, Any]) -> None:
    noun = Noun("things", "/things", "thing")

    @noun.get("", "getThing", "Get it", SUPER_USERS, outcome="The body", shows={media_type: example})
    async def body(own: object) -> Raw:
        return Raw(b"a,b", media_type)

    assert noun.operations[0].handler is body
    told = paths_of(noun.operations, Schemas())["/api/v1/things"]["get"]["responses"]["200"]
    assert told == {"description": "The body", "content": {media_type: {"schema": schema, "example": example}}}


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (Literal["all", "some"], {"type": "string", "enum": ["all", "some"]}),
        (Literal["*"], {"type": "string", "const": "*"}),
        (Literal["*"] | None, {"anyOf": [{"type": "string", "const": "*"}, {"type": "null"}]}),
    ],
)
def test_texts_that_are_told_in_advance(kind: Any, schema: dict[str, Any]) -> None:
    assert Schemas().of(kind) == schema
