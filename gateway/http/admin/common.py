"""Common parts of the administration: bodies, value checks, JSON answers."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from entrepot.domain.errors import EntrepotError
from entrepot.domain.timestamp import MAX_EPOCH_MS, to_epoch_ms, to_rfc3339
from entrepot.gateway.http.problems import bad_request, sentence_of

PREFIX: Final = "/api/v1"
CREATED: Final = 201
OK: Final = 200
NO_CONTENT: Final = 204
MAX_NUMBER: Final = 2**63 - 1
"""Largest number accepted anywhere: a signed one of 64 bits."""
MAX_CURSOR_LENGTH: Final = 512

Number = Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Offset = Annotated[int, Field(ge=0, le=MAX_NUMBER)]


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


def refusal_shape(refusal: EntrepotError) -> dict[str, Any]:
    """The refusal of one element of a list, as JSON."""
    return {"code": refusal.code.name, "message": sentence_of(refusal)}


# -- times -----------------------------------------------------------------------------------------------------------


def epoch_ms_of(text: str, where: str) -> int:
    """Parse an RFC 3339 time or epoch milliseconds.  Raises BAD_REQUEST that names `where`."""
    if text.isascii() and text.isdecimal():
        epoch_ms = int(text) if len(text) <= len(str(MAX_EPOCH_MS)) else None
    else:
        epoch_ms = to_epoch_ms(_with_plus(text))
    if epoch_ms is None or epoch_ms > MAX_EPOCH_MS:
        raise bad_request(
            f"{where}: must be an RFC 3339 time such as 2026-01-31T12:00:00Z, or epoch milliseconds, not {text[:80]!r}"
        )
    return max(epoch_ms, 0)


def _with_plus(text: str) -> str:
    """Restore the `+` of an offset such as +01:00, which an unencoded query decodes as a space."""
    return text[:-6] + "+" + text[-5:] if text[-6:-5] == " " and text[-3:-2] == ":" else text


def time_shape(epoch_ms: int) -> str | None:
    """A time as JSON; None for no time."""
    return to_rfc3339(epoch_ms) if epoch_ms else None
