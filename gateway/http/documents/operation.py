"""Operation: the documented name, input and successful answers of one operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from entrepot.gateway.http.documents.shapes import Schema, Shape, shape

JSON: Final = "application/json"


@dataclass(frozen=True)
class Answer:
    """One answer.  Without content it has no body."""

    description: str
    content: Shape | None = None
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    """Header names with their descriptions."""


@dataclass(frozen=True)
class Operation:
    """One operation.  `body`: its body, where the route does not declare it; `example`: an example of the route's body.
    `parameters`: those the handler reads itself."""

    id: str
    answers: Mapping[int, Answer]
    body: Shape | None = None
    example: Any = None
    parameters: tuple[Schema, ...] = ()
    description: str = ""


Operations = Mapping[tuple[str, str], Operation]
"""Operations by method and plain path."""


def answers(sample: Any, description: str = "As asked") -> dict[int, Answer]:
    """Answer 200 with JSON."""
    return {200: Answer(description, shape(sample))}


def put(sample: Any) -> dict[int, Answer]:
    """Answers 200 for a change and 201 for a new entity, both with its present state."""
    made = shape(sample)
    return {200: Answer("Changed: as it is now", made), 201: Answer("Created: as it is now", made)}


GONE: Final[Mapping[int, Answer]] = {204: Answer("Done")}


def query(name: str, schema: Schema, description: str, example: Any = None) -> Schema:
    """A query parameter unknown to the framework."""
    told = {"name": name, "in": "query", "required": False, "schema": schema, "description": description}
    return told if example is None else {**told, "example": example}
