"""Common parts of the administration: bodies and their schemas."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from entrepot.gateway.operations.problem import bad_request

NO_CONTENT: Final = 204


class Body(BaseModel):
    """A JSON body: no unknown fields, exact types."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=False)


class Change(Body):
    """A PUT's body: omitted fields keep their value; `null` is allowed for some fields only."""

    may_be_null: ClassVar[frozenset[str]] = frozenset()

    def given(self) -> dict[str, Any]:
        """The fields present in the body."""
        fields = {name: getattr(self, name) for name in self.model_fields_set}
        for name, value in fields.items():
            if value is None and name not in self.may_be_null:
                raise bad_request(f"{to_camel(name)}: must not be null")
        return fields


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
