"""Schemas (JSON Schema 2020-12) and examples of shapes, for the OpenAPI document."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, Struct, UnsetType

from entrepot.gateway.operations.row.shapes import EXAMPLES, Body, Like, Part, Row, Shown

Schema = dict[str, Any]
_PLAIN: Final[Mapping[Any, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    bytes: "string",
    NoneType: "null",
}


class Schemas:
    """Makes schemas; `parts` collects those with a name of their own."""

    def __init__(self) -> None:
        self.parts: dict[str, Schema] = {}

    def of(self, kind: Any) -> Schema:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            schema = self.of(_told(kind))
            for meta in arguments[1:]:
                schema = _limited(schema, meta) if isinstance(meta, Meta) else schema
            return schema
        if origin in (Union, UnionType):
            several = [self.of(each) for each in arguments if each is not UnsetType]
            return several[0] if len(several) == 1 else {"oneOf" if _is_told_apart(arguments) else "anyOf": several}
        if origin is list:
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is tuple:
            bounds = {"minItems": len(arguments), "maxItems": len(arguments)}
            return {"type": "array", "prefixItems": [self.of(each) for each in arguments], **bounds}
        if origin is Literal and len(arguments) == 1:
            return {"type": "string", "const": arguments[0]}
        if origin is Literal:
            return {"type": "string", "enum": list(arguments)}
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(arguments[1]) or True}
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {"type": "string", "enum": [each.value for each in kind]}
        if kind is Any:
            return {}
        return {"type": _PLAIN[kind]} if kind in _PLAIN else self._struct(kind)

    def _struct(self, kind: Any) -> Schema:
        struct: type[Struct] = get_origin(kind) or kind
        name = struct.__name__.removesuffix("Shown")
        reference = {"$ref": f"#/components/schemas/{name}"}
        if issubclass(struct, Shown) and name in self.parts:
            return reference
        hints = hints_of(kind)
        fields = msgspec.structs.fields(struct)
        properties = {each.encode_name: self.of(hints[each.name]) for each in fields}
        if issubclass(struct, Body):
            for each in fields:
                properties[each.encode_name] |= {"default": None} if each.default is None else _default_of(each)
        needed = [each.encode_name for each in fields if each.required or _is_always_shown(struct, each)]
        if issubclass(struct, Row):
            needed = []
        tag = struct.__struct_config__
        if tag.tag_field is not None:
            properties = {tag.tag_field: {"type": "string", "const": tag.tag}, **properties}
            needed = [tag.tag_field, *needed]
        schema: Schema = {"type": "object", "properties": properties, **({"required": needed} if needed else {})}
        if issubclass(struct, Body):
            closed = {"additionalProperties": False} if struct.__struct_config__.forbid_unknown_fields else {}
            return {**closed, "description": inspect.getdoc(struct), **schema}
        if issubclass(struct, Shown):
            self.parts[name] = {**schema, "description": inspect.getdoc(struct)}
            return reference
        return schema


def hints_of(kind: Any) -> dict[str, Any]:
    """Return the types of a struct's fields; those of a generic one are filled in."""
    origin = get_origin(kind)
    hints = get_type_hints(origin or kind, include_extras=True)
    if origin is None:
        return hints
    filled = dict(zip(origin.__parameters__, get_args(kind), strict=True))
    return {name: _filled(hint, filled) for name, hint in hints.items()}


def _is_told_apart(kinds: tuple[Any, ...]) -> bool:
    """Return True for structs that a field tells apart."""
    return all(isinstance(kind, type) and issubclass(kind, Struct) and kind.__struct_config__.tag for kind in kinds)


def _told(annotated: Any) -> Any:
    """Return the kind that an annotated one is documented as."""
    plain, *metas = get_args(annotated)
    return next((each.kind for each in metas if isinstance(each, Like)), plain)


def _filled(kind: Any, filled: Mapping[Any, Any]) -> Any:
    if kind in filled:
        return filled[kind]
    return list[_filled(get_args(kind)[0], filled)] if get_origin(kind) is list else kind  # type: ignore[misc]


def _is_always_shown(struct: type[Struct], field: msgspec.structs.FieldInfo) -> bool:
    """True for a field that goes out whatever its default."""
    return issubclass(struct, Shown | Part) and field.default is not UNSET


def _default_of(field: msgspec.structs.FieldInfo) -> Schema:
    if field.default_factory is not NODEFAULT:
        return {"default": field.default_factory()}
    return {} if field.default in (NODEFAULT, UNSET, None) else {"default": field.default}


def told_pattern(pattern: str) -> str:
    """Return a pattern as the document tells it, where `$` is the end alone, and not a line's too."""
    return pattern.replace(r"\Z", "$")


def _limited(schema: Schema, meta: Meta) -> Schema:
    told = {
        "maximum": meta.le,
        "minimum": meta.ge,
        "maxLength": meta.max_length if schema.get("type") == "string" else None,
        "minLength": meta.min_length if schema.get("type") == "string" else None,
        "pattern": None if meta.pattern is None else told_pattern(meta.pattern),
        "maxItems": meta.max_length if schema.get("type") == "array" else None,
        "minItems": meta.min_length if schema.get("type") == "array" else None,
        "maxProperties": meta.max_length if schema.get("type") == "object" else None,
        "description": meta.description,
        **(meta.extra_json_schema or {}),
    }
    return {**schema, **{name: value for name, value in told.items() if value is not None}}


def example_of(kind: Any) -> Any:
    """Return an example of a shape: its own, or one made of those of its fields and of the shape that it extends."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in EXAMPLES:
        return msgspec.to_builtins(EXAMPLES[kind])
    if origin is list:
        one = example_of(arguments[0])
        return [] if one is None else [one]
    if origin is Annotated:
        return example_of(_told(kind))
    if origin in (Union, UnionType):
        return example_of(arguments[0])
    struct = origin or kind
    if not (isinstance(struct, type) and issubclass(struct, Struct)):
        return None  # its row shows one
    hints = hints_of(kind)
    of_fields = {each.encode_name: example_of(hints[each.name]) for each in msgspec.structs.fields(struct)}
    extended: Schema = next((msgspec.to_builtins(EXAMPLES[each]) for each in struct.__mro__ if each in EXAMPLES), {})
    return {**of_fields, **extended}


def parameters_of(kind: type[Struct] | None, where: str) -> list[Schema]:
    """Return the parameters of a query or of headers, for the document; `where`: the document's word."""
    if kind is None:
        return []
    schemas, hints, found = Schemas(), hints_of(kind), list[Schema]()
    for each in msgspec.structs.fields(kind):
        schema = {**schemas.of(hints[each.name]), **_default_of(each)}
        told = {"name": each.encode_name, "in": where, "required": each.required, "schema": schema}
        found.append({**told, "description": schema["description"]} if "description" in schema else told)
    return found
