"""Queries and bodies are read, and refused, as pydantic did it for clients of earlier versions."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pydantic.alias_generators
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Meta, UnsetType

from entrepot.domain.errors import EntrepotError
from entrepot.gateway.http.requests.problems import _sentence
from entrepot.gateway.operations.row.reading import read_body, read_lenient, read_query, truth, whole
from entrepot.gateway.operations.row.schema import Schemas
from entrepot.gateway.operations.row.shapes import Body, LenientBody, Query

NUMBERS = pydantic.TypeAdapter(int)
TRUTHS = pydantic.TypeAdapter(bool)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Asked(Query, frozen=True):
    find: Annotated[str, Meta(max_length=5)] = ""
    limit: Annotated[int, Meta(ge=1, le=10)] = 7
    is_deep: bool = False
    kind: Literal["all", "some", "none"] = "all"
    before: Annotated[int, Meta(ge=1)] | None = None


class Inner(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    size: int


class Told(Body, frozen=True):
    name: str
    max_attempts: Annotated[int, Meta(ge=1, le=9)] | UnsetType = UNSET
    colour: Colour | UnsetType = UNSET
    is_open: bool | UnsetType | None = UNSET
    inner: Inner | UnsetType = UNSET
    parts: Annotated[list[Inner], Meta(max_length=2)] | UnsetType = UNSET


class OldInner(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)
    size: int


class OldTold(pydantic.BaseModel):
    """As bodies were described before."""

    model_config = pydantic.ConfigDict(
        extra="forbid", strict=True, alias_generator=pydantic.alias_generators.to_camel, populate_by_name=False
    )
    name: str
    max_attempts: int = pydantic.Field(default=1, ge=1, le=9)
    colour: Colour = Colour.RED
    is_open: bool | None = None
    inner: OldInner = OldInner(size=1)
    parts: list[OldInner] = pydantic.Field(default=[], max_length=2)


TEXTS = st.one_of(
    st.sampled_from(["5", "+5", " 5", "5 ", "05", "1_0", "1__0", "_1", "5.0", "5.", "1e1", "-3", "- 3", "", "0x1"]),
    # pydantic passes over zeros before a sign or two underscores, as in 0-5: nobody writes that
    st.text(st.sampled_from("0123456789+-_. e"), max_size=8).filter(lambda text: not re.search("0_*[+-]|0__", text)),
)
SAID = st.one_of(
    st.sampled_from(["yes", "NO", "on", "Off", "t", "F", "1", "0", "true", "FALSE", "y", "n", "", " true", "2", "tru"]),
    st.text(max_size=5),
)


def outcome(read: Any, text: str) -> Any:
    try:
        return read(text)
    except ValueError:
        return "refused"


@given(TEXTS)
def test_numbers_of_a_query(text: str) -> None:
    assert outcome(whole, text) == outcome(NUMBERS.validate_python, text)


@given(SAID)
def test_truth_values_of_a_query(text: str) -> None:
    assert outcome(truth, text) == outcome(TRUTHS.validate_python, text)


def test_a_query_is_read_into_its_fields() -> None:
    assert read_query(Asked, []) == Asked()
    pairs = [("limit", "3"), ("limit", "+4"), ("isDeep", "yes"), ("kind", "some"), ("other", "x"), ("before", "2")]
    assert read_query(Asked, pairs) == Asked("", 4, True, "some", 2)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("limit", "x", "limit: Input should be a valid integer, unable to parse string as an integer"),
        ("limit", "11", "limit: Input should be less than or equal to 10"),
        ("limit", "0", "limit: Input should be greater than or equal to 1"),
        ("before", "0", "before: Input should be greater than or equal to 1"),
        ("find", "sixsix", "find: String should have at most 5 characters"),
        ("isDeep", "maybe", "isDeep: Input should be a valid boolean, unable to interpret input"),
        ("kind", "few", "kind: Input should be 'all', 'some' or 'none'"),
    ],
)
def test_faults_of_a_query(name: str, text: str, words: str) -> None:
    with pytest.raises(EntrepotError) as refused:
        read_query(Asked, [(name, text)])
    assert refused.value.message == words


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": 1},
        {"name": None},
        {"name": "a", "nix": 1},
        {"name": "a", "maxAttempts": "3"},
        {"name": "a", "maxAttempts": 0},
        {"name": "a", "maxAttempts": 10},
        {"name": "a", "maxAttempts": True},
        {"name": "a", "colour": "green"},
        {"name": "a", "isOpen": 1},
        {"name": "a", "inner": {}},
        {"name": "a", "inner": {"size": "x"}},
        {"name": "a", "inner": []},
        {"name": "a", "inner": {"size": 1, "more": 2}},
        {"name": "a", "parts": {}},
        {"name": "a", "parts": [{"size": 1}] * 3},
        [],
        3,
        {"name": "a", "maxAttempts": 9, "colour": "blue", "isOpen": None, "inner": {"size": 2}},
    ],
    ids=json.dumps,
)
def test_bodies_are_told_of_as_before(body: Any) -> None:
    raw = json.dumps(body).encode()
    try:
        OldTold.model_validate_json(raw)
        before = ""
    except pydantic.ValidationError as error:
        before = "; ".join(_sentence(found) for found in error.errors())
    try:
        read_body(msgspec.json.Decoder(Told), raw)
        now = ""
    except EntrepotError as error:
        now = error.message
    if "parts" not in before or "at most" not in before:  # pydantic counts the items
        assert now == before.replace("OldTold", "Told")
    assert bool(now) == bool(before)


def test_what_is_no_json() -> None:
    for raw in (b"{", b"\xff", b'{"name": "\xff"}', b"nope"):
        with pytest.raises(EntrepotError):
            read_body(msgspec.json.Decoder(Told), raw)
    with pytest.raises(EntrepotError, match="name: Field required"):
        read_body(msgspec.json.Decoder(Told), b"")


class Item(Body, frozen=True):
    colour: Colour
    colours: Annotated[list[Colour], Meta(min_length=1)]


class Several(Body, frozen=True):
    items: list[Item]
    size: int | UnsetType = UNSET
    names: Annotated[list[str], Meta(max_length=1)] | UnsetType = UNSET


RED: dict[str, Any] = {"colour": "red", "colours": ["red"]}
NO_COLOUR = "Input should be 'red' or 'blue'"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"items": [{**RED, "colour": 1}]}, f"items.0.colour: {NO_COLOUR}"),
        ({"items": [{**RED, "colour": None}]}, f"items.0.colour: {NO_COLOUR}"),
        ({"items": [{**RED, "colours": ["green"]}]}, f"items.0.colours.0: {NO_COLOUR}"),
        ({"items": [{**RED, "colours": [2]}]}, f"items.0.colours.0: {NO_COLOUR}"),
        ({"items": [{**RED, "colours": []}]}, "items.0.colours: List should have at least 1 item"),
        ({"items": [None]}, "items.0: Input should be an object"),
        ({"items": None}, "items: Input should be a valid array"),
        ({"items": [], "size": None}, "size: must not be null"),
        ({"items": [], "names": None}, "names: must not be null"),
        ({"items": [], "names": [None]}, "names.0: Input should be a valid string"),
        ({"items": [], "names": ["a", "b"]}, "names: List should have at most 1 item"),
    ],
)
def test_faults_in_lists_and_of_nulls(body: Any, words: str) -> None:
    with pytest.raises(EntrepotError) as refused:
        read_body(msgspec.json.Decoder(Several), json.dumps(body).encode())
    assert refused.value.message == words


def test_faults_of_headers_say_where_they_are() -> None:
    for pairs, words in (
        ([("find", "sixsix")], "header.find: String should have at most 5 characters"),
        ([("limit", "x")], "header.limit: Input should be a valid integer, unable to parse string as an integer"),
    ):
        with pytest.raises(EntrepotError) as refused:
            read_query(Asked, pairs, "header.")
        assert refused.value.message == words


def test_a_line_s_end_is_no_end_of_a_pattern() -> None:
    """Python's `$` matches before it: a name with one went on to whoever took it for a name without."""

    class Digits(Body, frozen=True):
        at: Annotated[str, Meta(pattern=r"^[0-9]+\Z")]

    decoder = msgspec.json.Decoder(Digits)
    assert read_body(decoder, b'{"at":"41"}').at == "41"
    with pytest.raises(EntrepotError, match=r"^at: String should match pattern '\^\[0-9\]\+\$'$"):
        read_body(decoder, b'{"at":"41\\n"}')
    assert Schemas().of(Digits)["properties"]["at"]["pattern"] == "^[0-9]+$"


def test_every_pattern_of_a_row_ends_where_the_text_does() -> None:
    rooms = Path(__file__).parents[3] / "gateway" / "operations"
    found = [path.name for path in rooms.rglob("*.py") if re.search(r"pattern=r?\"[^\"]*\$\"", path.read_text())]
    assert found == []


class LooselyRead(pydantic.BaseModel):
    flag: bool = False
    count: int = 0


class Loose(LenientBody, frozen=True):
    """Read loosely."""

    flag: bool = False
    count: int = 0


@given(
    st.sampled_from(("flag", "count")),
    st.one_of(
        st.sampled_from(
            ("yes", "no", "on", "off", "t", "F", "1", "0", "+5", " 7 ", "1_0", "05", "1e1", "null", "", "x")
        ),
        st.booleans(),
        st.integers(-3, 3),
        st.sampled_from((0.0, 1.0, 2.0, 1.5)),
        st.none(),
    ),
)
def test_lenient_bodies_take_what_pydantic_took(name: str, value: Any) -> None:
    raw = json.dumps({name: value, "unknown": value}).encode()
    try:
        wanted = LooselyRead.model_validate_json(raw)
    except pydantic.ValidationError:
        with pytest.raises(EntrepotError):
            read_lenient(Loose, raw)
    else:
        found = read_lenient(Loose, raw)
        assert (found.flag, found.count) == (wanted.flag, wanted.count)
