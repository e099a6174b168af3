"""The table of operations finds what the framework's patterns find, whatever stands in the names."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.routing import compile_path

from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun, Operation
from entrepot.gateway.operations.row.rights import SUPER_USERS
from entrepot.gateway.operations.row.shapes import Body, PlainName, Query
from entrepot.gateway.operations.row.table import Table

DOCUMENT = Path(__file__).parents[3] / "docs" / "openapi.json"
TEMPLATES = [
    (method.upper(), path)
    for path, item in json.loads(DOCUMENT.read_text())["paths"].items()
    for method in item
    if method != "options"
]
"""Of the whole API, whether they are in the table yet or not."""
NAMES = ["a", "a:", "a:b", "a%2Fb", ":x", "a%3Ab", "%FF", "x:elect", "a b", "é"]


class Wanted(Query, frozen=True):
    """A query."""


class Told(Body, frozen=True):
    """A body."""


async def nothing(own: object) -> None:
    """A handler."""


def operation(method: str, path: str) -> Operation:
    noun = Noun("t", "", "t")
    parts: dict[str, Any] = dict.fromkeys(("query", "body", "head", "answer"))
    return Operation(noun, method, path, path, "", SUPER_USERS, nothing, "", {}, takes_asked=False, **parts)


EVERY = Table(operation(method, path) for method, path in TEMPLATES)


def by_patterns(method: str, raw: str) -> list[str]:
    """The templates whose pattern takes a path; as the framework has it, an encoded slash does not split a segment."""
    path = "/".join(unquote(segment).replace("/", "\ue000") for segment in raw.split("/"))
    return [t for known, t in TEMPLATES if known == method and compile_path(t)[0].match(path)]


@pytest.mark.parametrize(("method", "template"), TEMPLATES)
def test_each_template_is_found(method: str, template: str) -> None:
    names = re.findall(r"\{(\w+)\}", template)
    for values in product(NAMES, repeat=min(len(names), 2)):
        given = dict(zip(names, [*values, *["x"] * len(names)], strict=False))
        raw = quote(template.format(**given), safe="/:%")
        found = EVERY.find(method, raw.encode())
        wanted = by_patterns(method, raw)
        assert found is not None and found.template in wanted, raw
        if wanted == [template]:
            assert found.names == {name: unquote(given[name]) for name in names}, raw


PIECES = sorted({piece for _, path in TEMPLATES for piece in re.split(r"[/:]|\{\w+\}", path) if piece})
"""Fixed texts and verbs of all paths."""
SEGMENTS = st.lists(st.sampled_from([*PIECES, "", "a", ":", "%3A", "%2F", "%"]), max_size=3).map("".join)
NEAR = st.tuples(
    st.sampled_from([path for _, path in TEMPLATES]),
    st.dictionaries(st.integers(0, 9), SEGMENTS, max_size=2),
    st.sampled_from(["", "", "", ":", "/", "%3A", ":a"]),
)
"""Paths of templates with some segments replaced, and something behind."""


def near(template: str, others: dict[int, str], end: str) -> str:
    segments = re.sub(r"\{\w+\}", "a", template).split("/")[1:]
    return "/" + "/".join(others.get(at, segment) for at, segment in enumerate(segments)) + end


@given(st.sampled_from(["GET", "PUT", "POST", "DELETE"]), NEAR)
@settings(max_examples=500)
def test_nothing_else_is_found(method: str, parts: tuple[str, dict[int, str], str]) -> None:
    raw = near(*parts)
    found, wanted = EVERY.find(method, raw.encode()), by_patterns(method, raw)
    assert (found is not None) == bool(wanted), raw
    assert found is None or found.template in wanted, raw
    assert (method in EVERY.methods_at(raw.encode())) == (found is not None)


def test_a_fixed_segment_comes_before_a_name() -> None:
    table = Table([operation("GET", "/a/{name}"), operation("GET", "/a/b"), operation("PUT", "/a/b/{x}")])
    assert [found.template for raw in (b"/a/b", b"/a/%62", b"/a/c") if (found := table.find("GET", raw))] == [
        "/a/b", "/a/b", "/a/{name}",
    ]  # fmt: skip
    assert table.find("PUT", b"/a/b/") is None, "a name is not empty"
    assert table.find("GET", b"/a/b/") is None
    assert table.methods_at(b"/a/b") == {"GET"}


def test_a_row_that_cannot_be_read_is_refused_at_once() -> None:
    noun = Noun("t", "/t", "t")

    async def whole(own: object, name: PlainName, asked: Asked, query: Wanted, body: Told) -> None:
        """A handler."""

    noun.put("/{name}", "putT", "Put", SUPER_USERS)(whole)
    [row] = noun.operations
    assert (row.names, row.query, row.body, row.takes_asked) == ({"name": PlainName}, Wanted, Told, True)
    assert (row.path, row.change, row.needs_body) == ("/api/v1/t/{name}", "t changed", False)

    async def misses_a_name(own: object) -> None:
        """A handler."""

    async def has_no_kind(own: object, name: str) -> None:
        """A handler."""

    for handler in (misses_a_name, has_no_kind):
        with pytest.raises(TypeError):
            noun.get("/{name}", "getT", "Get", SUPER_USERS)(handler)
    with pytest.raises(TypeError, match="right"):
        noun.get("/{name}", "getT", "Get")(whole)  # type: ignore[call-arg]
    with pytest.raises(AssertionError, match="is there twice"):
        Table([*noun.operations, *noun.operations])
