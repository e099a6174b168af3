"""The metadata file of an Iceberg table: its schemas, and its last few snapshots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from entrepot.broker.tiered.iceberg.schemas import name_mapping, schema_of

MAX_SNAPSHOTS: Final = 10
"""Most snapshots that one may go back to."""
DELTA_VERSION: Final = "entrepot.delta-version"
"""Name, in a snapshot's summary, of the version of Delta's table that it is made of."""


class Ground(NamedTuple):
    """A version of the metadata, as it lies in the store."""

    version: int
    told: dict[str, Any]

    @property
    def current(self) -> dict[str, Any] | None:
        """The newest snapshot."""
        number = self.told.get("current-snapshot-id")
        return next((each for each in self.told["snapshots"] if each["snapshot-id"] == number), None)

    @property
    def delta_version(self) -> int:
        """Version of Delta's table; -1 where it is not told."""
        return int((self.current or {}).get("summary", {}).get(DELTA_VERSION, -1))

    @property
    def schema(self) -> dict[str, Any]:
        number = self.told["current-schema-id"]
        found: dict[str, Any] = next(each for each in self.told["schemas"] if each["schema-id"] == number)
        return found


def decode_metadata(version: int, data: bytes, table_id: str, location: str) -> Ground | None:
    """Return a version of the metadata; None where it is corrupted, another table's, or of another place: then the
    next one is made of Delta's log alone."""
    try:
        told = msgspec.json.decode(data, type=dict[str, Any])
        ground = Ground(version, told)
        is_ours = told["table-uuid"] == table_id and told["location"] == location
        usable = is_ours and ground.current is not None and bool(ground.schema)
        _ = told["last-sequence-number"] + told["last-column-id"], ground.delta_version
    except (ValueError, KeyError, TypeError, StopIteration):
        return None
    return ground if usable else None


def next_schema(delta: str, ground: Ground | None) -> tuple[dict[str, Any], int]:
    """Return the schema of a Delta table, with the numbers that its columns had, and the greatest number ever."""
    if ground is None:
        struct, last = schema_of(delta, None, 0)
        return {**struct, "schema-id": 0}, last
    before = ground.schema
    struct, last = schema_of(delta, before, ground.told["last-column-id"])
    if struct["fields"] == before["fields"]:
        return before, last
    greatest: int = max(each["schema-id"] for each in ground.told["schemas"])
    return {**struct, "schema-id": greatest + 1}, last


def next_metadata(
    ground: Ground | None,
    snapshot: Mapping[str, Any],
    schema: Mapping[str, Any],
    *,
    table_id: str,
    location: str,
    last_column: int,
    kept_since_ms: int,
) -> dict[str, Any]:
    """Return the metadata with a new snapshot, to be stored as JSON. Earlier ones stay that are not older than
    `kept_since_ms`, epoch milliseconds, as far as MAX_SNAPSHOTS."""
    before = [] if ground is None else ground.told["snapshots"]
    kept = [each for each in before if each["timestamp-ms"] >= kept_since_ms][1 - MAX_SNAPSHOTS :]
    snapshots = [*kept, snapshot]
    used = {each["schema-id"] for each in snapshots}
    schemas = [] if ground is None else ground.told["schemas"]
    number, time_ms = snapshot["snapshot-id"], snapshot["timestamp-ms"]
    return {
        "format-version": 2,
        "table-uuid": table_id,
        "location": location,
        "last-sequence-number": snapshot["sequence-number"],
        "last-updated-ms": time_ms,
        "last-column-id": last_column,
        "current-schema-id": schema["schema-id"],
        "schemas": [each for each in schemas if each["schema-id"] in used - {schema["schema-id"]}] + [schema],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {
            "schema.name-mapping.default": json.dumps(name_mapping(schema)),
            "gc.enabled": "false",  # the files are Delta's: no engine of Iceberg's is to delete them
        },
        "current-snapshot-id": number,
        "refs": {"main": {"snapshot-id": number, "type": "branch"}},
        "snapshots": snapshots,
        "snapshot-log": [
            {"timestamp-ms": each["timestamp-ms"], "snapshot-id": each["snapshot-id"]} for each in snapshots
        ],
        "metadata-log": [],
    }
