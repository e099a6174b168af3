"""The schema of the table: the topic's own columns, then those of bodies, given or found in samples.

A field of bodies with the name of a topic's own column is the column `payload_<name>`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa

from entrepot.protocols.wire.arrow_columns import variable_array
from entrepot.protocols.wire.records import RecordColumns
from entrepot.spark_ingest.source.batches import ERROR_COLUMNS
from entrepot.spark_ingest.source.columns import ENVELOPE
from entrepot.spark_ingest.source.options import OptionError, Parse, SourceOptions
from entrepot.spark_ingest.source.payloads import decode_any
from entrepot.store_client.blocking import BlockingReader

PREFIX: Final = "payload_"
SAMPLE_MESSAGES: Final = 1_000
"""Sampled messages of each queue, the last ones."""
SAMPLE_BYTES: Final = 4 << 20
MAX_COLUMNS: Final = 200
"""Most columns found in samples, fields of objects included: names may be data. `schema` gives as many as it likes."""
MAX_VALUES: Final = 100 * MAX_COLUMNS
"""Most values of a sampled body that are looked at."""
MAX_DEPTH: Final = 8
"""Greatest depth of objects and lists in a column found in samples; deeper ones have none."""
_MAX_BIGINT: Final = 1 << 63


def envelope_columns(options: SourceOptions) -> list[str]:
    """The topic's own columns that are wanted, in their order."""
    left_out = set() if options.includes_properties else {"properties"}
    if options.parse is not Parse.NONE:
        left_out.add("body")
    if not options.columns:
        return [name for name in ENVELOPE if name not in left_out]
    unknown = [name for name in options.columns if name not in ENVELOPE]
    if unknown:
        raise OptionError(f"columns: there is no column {unknown[0]!r}; there are {', '.join(ENVELOPE)}")
    return list(options.columns)


def table_ddl(options: SourceOptions, payload_ddl: str) -> str:
    """The table's schema as Spark's DDL."""
    parts = [f"{name} {ENVELOPE[name]}" for name in envelope_columns(options)]
    if options.parse is not Parse.NONE:
        parts += [payload_ddl, "_rescued string", "_error string", "_raw binary"]
    return ", ".join(part for part in parts if part)


def payload_columns(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The columns of bodies among a table's, each with its name in bodies."""
    return tuple(
        (column, name_in_body(column)) for column in names if column not in ENVELOPE and column not in ERROR_COLUMNS
    )


def name_in_body(column: str) -> str:
    """The name in bodies of a column."""
    name = column.removeprefix(PREFIX)
    return name if name in ENVELOPE or name in ERROR_COLUMNS else column


def inferred_fields(reader: BlockingReader, topics: Sequence[str], options: SourceOptions) -> dict[str, str]:
    """The columns of bodies with their Spark types, as in most of the last messages of each queue; of too many names
    the most frequent ones."""
    found: dict[str, Counter[str]] = {}
    for topic in topics:
        for bounds in reader.bounds(topic):
            start = max(bounds.min_offset, bounds.max_offset - SAMPLE_MESSAGES)
            if start == bounds.max_offset:
                continue
            run = reader.records(topic, bounds.queue_id, start, bounds.max_offset, SAMPLE_BYTES, options.filter)
            for body in variable_array(RecordColumns(run), "body", pa.binary()).to_pylist():
                for name, kind in _kinds(decode_any(options.parse, body)).items():
                    found.setdefault(name, Counter())[kind] += 1
    found = _spelt_once(found)
    kinds = {name: _prevailing(of_name) or "string" for name, of_name in found.items()}
    chosen, room = set(), MAX_COLUMNS
    for name in sorted(found, key=lambda each: -found[each].total()):
        room -= max(1, kinds[name].count("`") // 2)
        if room < 0:
            break
        chosen.add(name)
    return {_column(name): kind for name, kind in kinds.items() if name in chosen}


def _spelt_once(found: Mapping[str, Counter[str]]) -> dict[str, Counter[str]]:
    """The fields without those that differ only in case from a more frequent one: Spark has one column for both."""
    taken: set[str] = set()
    chosen: set[str] = set()
    for name in sorted(found, key=lambda each: -found[each].total()):
        if _column(name).lower() not in taken:
            taken.add(_column(name).lower())
            chosen.add(name)
    return {name: kinds for name, kinds in found.items() if name in chosen}


def _kinds(value: Any) -> dict[str, str]:
    """The types of a sampled body's fields; none of one that is not an object."""
    return _Sampled().fields_of(value, 0) if isinstance(value, dict) else {}


def _prevailing(kinds: Counter[str]) -> str:
    """The type of most values, widened where possible: a single bad message decides nothing."""
    return reduce(_merged, [kind for kind, _ in kinds.most_common()], "")


def inferred_ddl(reader: BlockingReader, topics: Sequence[str], options: SourceOptions) -> str:
    """The columns of bodies as DDL. Raises OptionError where no body can be read."""
    fields = inferred_fields(reader, topics, options)
    if not fields:
        where = ", ".join(topics) or "topics of that pattern"
        raise OptionError(
            f"no body of {where} could be read as {options.parse} to find its schema: give the option schema"
        )
    return ddl_of(fields)


def ddl_of(fields: Mapping[str, str]) -> str:
    """Columns and their types as DDL."""
    return ", ".join(f"`{name}` {kind}" for name, kind in fields.items())


def _column(name: str) -> str:
    return PREFIX + name if name in ENVELOPE or name in ERROR_COLUMNS else name


class _TooLargeError(Exception):
    """A value has more levels, or more values, than a column may, or none that can have a column."""


class _Sampled:
    """The types of one body, whose values may hold themselves, or each other many times, as CBOR's may."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def fields_of(self, value: dict[Any, Any], depth: int) -> dict[str, str]:
        """The types of an object's fields, without those that are too large; in an inner object, of names that differ
        only in case the first one's."""
        fields: dict[str, str] = {}
        taken: set[str] = set()
        for name, item in value.items():
            if isinstance(name, str) and name and "`" not in name and (not depth or name.lower() not in taken):
                taken.add(name.lower())
                try:
                    fields[name] = self._kind(item, depth + 1)
                except _TooLargeError:
                    continue
        return fields

    def _kind(self, value: Any, depth: int) -> str:
        """The Spark type of a value; empty for null."""
        self._left -= 1
        if self._left < 0 or (depth > MAX_DEPTH and isinstance(value, dict | list)):
            raise _TooLargeError
        match value:
            case None:
                return ""
            case bool():
                return "boolean"
            case int():
                return "bigint" if -_MAX_BIGINT <= value < _MAX_BIGINT else "double"
            case float():
                return "double"
            case bytes():
                return "binary"
            case list():
                kind = ""
                for item in value:
                    kind = _merged(kind, self._kind(item, depth + 1))
                return f"array<{kind or 'string'}>"
            case dict():
                fields = self.fields_of(value, depth)
                if not fields and value:
                    raise _TooLargeError
                if not fields:
                    return ""
                return "struct<" + ", ".join(f"`{name}`: {kind or 'string'}" for name, kind in fields.items()) + ">"
            case _:
                return "string" if isinstance(value, str) else "timestamp"


def _merged(one: str, other: str) -> str:
    """A type for both; values of other types than a column's become errors."""
    if not one or not other or one == other:
        return one or other
    if {one, other} == {"bigint", "double"}:
        return "double"
    if one.startswith("struct<") and other.startswith("struct<"):
        return max(one, other, key=len)
    return one
