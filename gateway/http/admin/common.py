"""Common parts of the administration: bodies, their schemas, statuses."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

CREATED: Final = 201
OK: Final = 200
NO_CONTENT: Final = 204


class Body(BaseModel):
    """A JSON body: no unknown fields, exact types."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=False)


def schema_of(kind: type[Body]) -> dict[str, Any]:
    """A body's schema for the OpenAPI document, with references resolved."""
    schema = kind.model_json_schema()
    parts = schema.pop("$defs", {})

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return filled(parts[value["$ref"].rpartition("/")[2]])
            return {key: filled(part) for key, part in value.items()}
        return [filled(part) for part in value] if isinstance(value, list) else value

    filled_schema: dict[str, Any] = filled(schema)
    return filled_schema
