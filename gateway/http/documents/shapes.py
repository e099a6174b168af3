"""Samples of JSON: one value makes a schema (JSON Schema 2020-12) and its example.

A member whose name ends in `?` is optional; others are required.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from entrepot.gateway.operations.schema import Schemas, example_of

Schema = dict[str, Any]
_TYPES: Final[Mapping[type, str]] = {str: "string", bool: "boolean", int: "integer", float: "number"}


@dataclass(frozen=True)
class Shape:
    """A schema with an example.  `parts`: referenced schemas by name."""

    schema: Schema
    example: Any
    parts: Mapping[str, Schema] = field(default_factory=dict)


@dataclass(frozen=True)
class Maybe:
    """The sample, or null."""

    sample: Any


@dataclass(frozen=True)
class Either:
    """One of several samples; the first is the example."""

    samples: tuple[Any, ...]


@dataclass(frozen=True)
class Choice:
    """One of these texts; the first is the example."""

    values: tuple[str, ...]


@dataclass(frozen=True)
class Text:
    """A text of a format, such as `date-time`."""

    example: str
    format: str


@dataclass(frozen=True)
class Keyed:
    """An object with members of any name, all shaped like the sample."""

    name: str
    sample: Any


@dataclass(frozen=True)
class Anything:
    """Any JSON, with an example."""

    example: Any


def time(example: str = "2026-12-01T08:00:00.000Z") -> Text:
    """An RFC 3339 time."""
    return Text(example, "date-time")


def shape(sample: Any) -> Shape:
    """The shape of the sample."""
    if isinstance(sample, Shape):
        return sample
    if isinstance(sample, Mapping):
        return _object(sample)
    if isinstance(sample, list):
        each = shape(sample[0]) if sample else Shape({}, None)
        return Shape({"type": "array", "items": each.schema}, [each.example] if sample else [], each.parts)
    if isinstance(sample, Maybe):
        inner = shape(sample.sample)
        return Shape({"anyOf": [inner.schema, {"type": "null"}]}, inner.example, inner.parts)
    if isinstance(sample, Either):
        several = [shape(each) for each in sample.samples]
        parts = {name: schema for each in several for name, schema in each.parts.items()}
        return Shape({"anyOf": [each.schema for each in several]}, several[0].example, parts)
    if isinstance(sample, Choice):
        values = [str(each) for each in sample.values]
        return Shape({"type": "string", "enum": values}, values[0])
    if isinstance(sample, Text):
        return Shape({"type": "string", "format": sample.format}, sample.example)
    if isinstance(sample, Keyed):
        inner = shape(sample.sample)
        schema = {"type": "object", "additionalProperties": inner.schema}
        return Shape(schema, {sample.name: inner.example}, inner.parts)
    if isinstance(sample, Anything):
        return Shape({}, sample.example)
    return Shape({"type": _TYPES[type(sample)]}, sample)


def _object(sample: Mapping[str, Any]) -> Shape:
    members = {name.rstrip("?"): shape(value) for name, value in sample.items()}
    schema: Schema = {"type": "object", "properties": {name: each.schema for name, each in members.items()}}
    required = [name for name in sample if not name.endswith("?")]
    if required:
        schema["required"] = required
    parts = {name: part for each in members.values() for name, part in each.parts.items()}
    return Shape(schema, {name: each.example for name, each in members.items()}, parts)


def named(name: str, description: str, sample: Any) -> Shape:
    """A shape that becomes a named component of the document."""
    made = shape(sample)
    parts = {**made.parts, name: {**made.schema, "description": description}}
    return Shape({"$ref": f"#/components/schemas/{name}"}, made.example, parts)


def of_shown(kind: Any) -> Shape:
    """The shape of what a noun shows (`gateway.operations`), for tables that contain it."""
    schemas = Schemas()
    return Shape(schemas.of(kind), example_of(kind), schemas.parts)
