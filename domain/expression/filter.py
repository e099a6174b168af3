"""FilterExpression: what of a topic a consumer wants."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FilterKind(StrEnum):
    TAG = "TAG"
    SQL92 = "SQL92"
    SUB_TOPIC = "SUB_TOPIC"


@dataclass(frozen=True, slots=True)
class FilterExpression:
    """An expression in one of the languages."""

    kind: FilterKind
    text: str
