"""What a document says of one operation: its name, what it takes, what it answers where nothing is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from entrepot.gateway.http.documents.shapes import Schema, Shape, shape

JSON: Final = "application/json"


@dataclass(frozen=True)
class Answer:
    """One status.  Without a content it has no body."""

    description: str
    content: Shape | None = None
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names of headers with what they say."""


@dataclass(frozen=True)
class Operation:
    """`body`: what is sent, where its route does not say it; `example`: an example of that which its route says.
    `parameters`: those that its handler takes from the request by itself."""

    id: str
    answers: Mapping[int, Answer]
    body: Shape | None = None
    example: Any = None
    parameters: tuple[Schema, ...] = ()
    description: str = ""


Operations = Mapping[tuple[str, str], Operation]
"""By method and plain path."""


def answers(sample: Any, description: str = "As asked") -> dict[int, Answer]:
    """200 with JSON."""
    return {200: Answer(description, shape(sample))}


def put(sample: Any) -> dict[int, Answer]:
    """200 for a change, 201 for what is new; both with the thing as it is now."""
    made = shape(sample)
    return {200: Answer("Changed: as it is now", made), 201: Answer("Created: as it is now", made)}


GONE: Final[Mapping[int, Answer]] = {204: Answer("Done")}


def query(name: str, schema: Schema, description: str, example: Any = None) -> Schema:
    """A parameter of the query that the framework does not know of."""
    told = {"name": name, "in": "query", "required": False, "schema": schema, "description": description}
    return told if example is None else {**told, "example": example}
