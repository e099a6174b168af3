"""A case: a request to the publish path, how it is answered, and what is received of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

BINARY: Final = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
STRUCTURED: Final = {"content-type": "application/cloudevents+json"}
BATCH: Final = {"content-type": "application/cloudevents-batch+json"}
EVENT: Final = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
NULL: Final = object()
"""Of a member that is there, and is null."""


@dataclass(frozen=True)
class Case:
    """`event`: members that the received event has; None for one that it has not, `NULL` for one that is null.
    `count`: how many are received.  `words` are in the problem's detail."""

    name: str
    proves: tuple[str, ...]
    headers: dict[str, str]
    body: bytes = b""
    status: int = 200
    event: dict[str, Any] = field(default_factory=dict)
    count: int = 1
    words: tuple[str, ...] = ()
    more_headers: tuple[tuple[str, str], ...] = ()
    """Headers that are there besides, of names that may repeat."""
