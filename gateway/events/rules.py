"""EventRules: the rules of topics for their events, as key-values that every gateway follows.

A rule belongs to one topic: the JSON Schema for its data, the treatment of data that does not conform, and the window
of deduplication by source and id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import jsonschema_rs
import msgspec

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.ports import KeyValues
from entrepot.gateway.key_values.watched_table import WatchedTable
from entrepot.protocols.cloudevents.json_format import is_json

PREFIX: Final = "events/rules/"
MAX_SCHEMA_BYTES: Final = 256 * 1024
MAX_PATTERN_BYTES: Final = 4 * 1024 * 1024
"""Largest compiled pattern of a schema, in bytes; its cache of states may have as much again."""
MAX_DEDUP_SECONDS: Final = 7 * 86_400
REFUSE: Final = "refuse"
DIVERT: Final = "divert"


class EventRuleRecord(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A rule as stored: `schema` is a JSON text, `on_invalid` is REFUSE, or DIVERT to `divert_to`."""

    dedup_seconds: int = 0
    schema: str = ""
    dataschema: str = ""
    on_invalid: str = REFUSE
    divert_to: str = ""


_DECODER: Final = msgspec.json.Decoder(EventRuleRecord)
_PATTERNS: Final = jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES, dfa_size_limit=MAX_PATTERN_BYTES)


class EventRule:
    """A rule with its schema compiled. Raises BAD_REQUEST where the schema is invalid."""

    def __init__(self, record: EventRuleRecord) -> None:
        self.record = record
        self.dedup_ms = record.dedup_seconds * 1000
        self._validator: Any = compile_schema(record.schema) if record.schema else None

    @property
    def has_schema(self) -> bool:
        return self._validator is not None

    def refusal_of(self, message: Message, topic: str) -> EntrepotError | None:
        """The reason to refuse a message, or None where it conforms or is to be diverted."""
        if self.record.on_invalid == DIVERT:
            return None
        fault = self.fault_of(message)
        return None if fault is None else does_not_conform(topic, fault)

    def fault_of(self, message: Message) -> str | None:
        """The reason why a message does not conform, or None."""
        if self._validator is None:
            return None
        record = self.record
        if record.dataschema:
            said = next((value for name, value in message.properties if name == "ce_dataschema"), None)
            if said is not None and said != record.dataschema:
                return f"its dataschema is {str(said)[:200]!r}, the topic's is {record.dataschema!r}"
        if not is_json(message.body):
            return "its data is not JSON"
        try:
            self._validator.validate(msgspec.json.decode(message.body))  # to the first error: there may be a million
        except jsonschema_rs.ValidationError as error:
            where = "/".join(map(str, error.instance_path))
            return f"data{'/' + where if where else ''}: {error.message[:300]}"
        except (msgspec.MsgspecError, ValueError, RecursionError) as unreadable:
            return f"its data cannot be read: {unreadable}"
        return None


def does_not_conform(topic: str, fault: str) -> EntrepotError:
    """The refusal of a message that does not conform."""
    return EntrepotError(Code.BAD_REQUEST, f"the event does not conform to the schema of {topic!r}: {fault}")


def compile_schema(text: str) -> Any:
    """Return a validator of linear-time patterns: look-around and back-references are refused. A reference to another
    document is refused as well: nothing is fetched."""

    def nothing_is_fetched(uri: str) -> Any:
        raise ValueError(f"{uri!r} is outside of the schema")

    try:
        schema = msgspec.json.decode(text)
        return jsonschema_rs.validator_for(schema, retriever=nothing_is_fetched, pattern_options=_PATTERNS)
    except (msgspec.MsgspecError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        is_pattern = isinstance(error, jsonschema_rs.ValidationError) and error.message.endswith('is not a "regex"')
        hint = "a pattern has no look-around, no reference back, and is small when compiled: " if is_pattern else ""
        raise EntrepotError(Code.BAD_REQUEST, f"schema: it is not a JSON Schema: {hint}{str(error)[:400]}") from None


def _encode(rule: EventRule) -> bytes:
    return msgspec.json.encode(rule.record)


def _decode(value: bytes) -> EventRule:
    try:
        return EventRule(_DECODER.decode(value))
    except (msgspec.MsgspecError, EntrepotError) as error:
        raise ValueError(str(error)) from None


class EventRules:
    """The rules by full name of their topic."""

    def __init__(self, key_values: KeyValues) -> None:
        self._table = WatchedTable(key_values, PREFIX, _decode, _encode)
        self._with_schema = 0
        self.on_schemas: Callable[[bool], None] = lambda has_schemas: None
        """Callback that gets True if any topic has a schema."""
        self._table.on_change.append(self._count)
        self.of: Callable[[str], EventRule | None] = self._table.get
        self.items: Callable[[], Iterator[tuple[str, EventRule]]] = self._table.items
        self.start, self.close = self._table.start, self._table.close

    def _count(self, topic: str, before: EventRule | None, now: EventRule | None) -> None:
        self._with_schema += bool(now and now.has_schema) - bool(before and before.has_schema)
        self.on_schemas(self._with_schema > 0)

    async def put(self, topic: str, rule: EventRule) -> None:
        """Set the rule of a topic, in place of the one before; it holds at this gateway on return."""
        await self._table.write([self._table.change(topic, rule)])

    async def delete(self, topic: str) -> None:
        if self._table.get(topic) is not None:
            await self._table.write([self._table.change(topic, None)])
