"""Shapes of what comes in and goes out, as the document and the command line read them.

A struct is a shape: its fields, their types and limits (`Meta`), and `Flag` for the command line.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Generic, NewType, TypeVar

import msgspec
from msgspec import Meta, Struct

MAX_NUMBER: Final = 2**63 - 1
"""Largest number accepted anywhere: a signed one of 64 bits."""
MAX_CURSOR_LENGTH: Final = 512
Number = Annotated[int, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Offset = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time that goes out, by RFC 3339."""


def one_of(values: Iterable[str]) -> Meta:
    """Limit a text that goes out to these values in the document.  Gateways of the next version may tell others."""
    return Meta(extra_json_schema={"enum": [str(each) for each in values]})


GroupName = NewType("GroupName", str)
"""A group of the path, by its stored name, which has its namespace."""
TopicName = NewType("TopicName", str)
"""A topic of the path, likewise."""
PlainName = NewType("PlainName", str)
"""A name of the path as it is: of a user, a namespace, an id."""
WholeName = NewType("WholeName", int)
"""A number of the path: of a replica, a controller."""

RawBody = NewType("RawBody", bytes)
"""A body that its handler reads itself; its row has the schema."""

_T = TypeVar("_T")


class Part(Struct, rename="camel", frozen=True):
    """A part of an answer, documented in its place."""


class Shown(Struct, rename="camel", frozen=True):
    """An answer with a name of its own in the document: that of its class without `Shown`.  Its docstring is the
    description.  A field that gateways of the version before do not tell has a default."""


class Row(Shown, frozen=True):
    """A Shown of which others leave out members: the document requires none."""


class Body(Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """A JSON body.  A field that may be omitted is `| UnsetType = UNSET`; one that may be null says so."""

    def given(self) -> dict[str, Any]:
        """Return the fields that the body has."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not msgspec.UNSET}


class LenientBody(Body, rename=str, forbid_unknown_fields=False, frozen=True):
    """A JSON body as RabbitMQ takes it: unknown fields are ignored, and `"true"` counts as `true`."""


class Query(Struct, rename="camel", frozen=True):
    """Parameters of the query; of one that comes several times the last counts."""


class Head(Struct, frozen=True):
    """Headers of the request, each by its name in small letters."""


@dataclass(frozen=True, slots=True)
class Made(Generic[_T]):
    """The answer of a PUT: 201 for what is new, else 200."""

    value: _T
    is_new: bool


@dataclass(frozen=True, slots=True)
class Raw:
    """An answer that is not JSON.  Its row shows an example by the documented media type."""

    body: bytes
    media_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pieces:
    """An answer that is made while it is sent.  A failure breaks it off.  Its row shows it as `Raw`."""

    pieces: AsyncIterator[bytes]
    media_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Created(Generic[_T]):
    """The answer of a POST that makes something: 201."""

    value: _T


@dataclass(frozen=True, slots=True)
class Declared:
    """The answer of a PUT that shows nothing: 201 for what is new, else 204."""

    is_new: bool


@dataclass(frozen=True, slots=True)
class Checked:
    """The answer of a check: 200, or 503 with the problem.  `more`: members beside status and problem."""

    problem: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


class Listed(Part, Generic[_T], frozen=True):
    """A whole list."""

    value: list[_T]


class Continued(Part, Generic[_T], frozen=True):
    """A list with the cursor of what follows, or null at its end."""

    value: list[_T]
    next: str | None


@dataclass(frozen=True, slots=True)
class Like:
    """The kind that a value is documented as, where its type tells less: part of its annotation."""

    kind: Any


@dataclass(frozen=True, slots=True)
class Flag:
    """The command line's form of a field: part of its annotation.  `name`: of a truth value perhaps with that of its
    opposite, `--on/--off`; without dashes that of an argument.  `read`: the JSON value of the option's text; it raises
    ValueError, which begins with the text.  `is_many`: the option may be repeated, and `read` gets all texts.
    `sends`: the value of a plain flag.  `forms`: texts that `read` reads, for null and for objects: one stands for what
    has just the fields that it names in braces.  For a repeated option, `name` and `value` of an entry."""

    help: str = ""
    metavar: str | None = None
    name: str | None = None
    read: Callable[[Any], Any] | None = None
    is_many: bool = False
    sends: str | None = None
    forms: tuple[str, ...] = ()


EXAMPLES: Final[dict[type, Struct]] = {}
"""Example of each shape that goes out."""


def shown_as(example: Struct) -> None:
    """Set the example of its type, for the document and for tests."""
    EXAMPLES[type(example)] = example
