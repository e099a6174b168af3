"""IngestRecord: what a Spark job has written to its table, as a key-value of the store.

The job adds each batch after its commit; the oldest ones are dropped beyond named limits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from entrepot.domain.journey.facts import Ingested
from entrepot.domain.message import Place

PREFIX: Final = "ingested/"
"""Prefix of the keys; the job's id follows."""
MAX_BATCHES: Final = 1_000
MAX_BYTES: Final = 256 << 10
"""Limits of one job's record: batches, and bytes of its JSON."""

Ranges = Mapping[str, Mapping[int, tuple[int, int]]]
"""Offsets of a batch by topic and queue: the first, and the one after the last."""


@dataclass(frozen=True, slots=True)
class IngestBatch:
    """One batch in a table.  `version`: of the table, empty where its format has none."""

    batch: int
    version: str
    time_ms: int
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class IngestRecord:
    """The newest batches of one job, the oldest first."""

    table: str
    format: str
    batches: tuple[IngestBatch, ...] = ()

    def with_batch(self, batch: IngestBatch) -> IngestRecord:
        """Return the record with a batch added, or replaced."""
        others = [each for each in self.batches if each.batch != batch.batch]
        return IngestRecord(self.table, self.format, (*others, batch)[-MAX_BATCHES:])

    def encode(self) -> bytes:
        """Return the value of the key, without the oldest batches that have no room."""
        rows = [_row(each) for each in self.batches]
        while True:
            value = json.dumps({"table": self.table, "format": self.format, "batches": rows}, separators=(",", ":"))
            if len(value) <= MAX_BYTES or len(rows) <= 1:
                return value.encode()
            rows = rows[len(rows) // 4 + 1 :]

    def at(self, place: Place) -> list[Ingested]:
        """Return the batches that had a message."""
        topic, queue_id, offset = place
        found = []
        for each in self.batches:
            first, end = each.ranges.get(topic, {}).get(queue_id, (0, 0))
            if first <= offset < end:
                found.append(Ingested(self.table, self.format, each.batch, each.version, each.time_ms))
        return found


def decode_record(value: bytes) -> IngestRecord:
    """Reverse `IngestRecord.encode`.  Raises ValueError."""
    try:
        found = json.loads(value)
        batches = tuple(
            IngestBatch(int(batch), str(version), int(time_ms), _ranges(rows))
            for batch, version, time_ms, rows in found["batches"]
        )
        return IngestRecord(str(found["table"]), str(found["format"]), batches)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not the record of a job: {error}") from error


def _row(batch: IngestBatch) -> list[Any]:
    rows = [
        [topic, queue_id, first, end]
        for topic, queues in batch.ranges.items()
        for queue_id, (first, end) in queues.items()
    ]
    return [batch.batch, batch.version, batch.time_ms, rows]


def _ranges(rows: Sequence[Sequence[Any]]) -> Ranges:
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for topic, queue_id, first, end in rows:
        found.setdefault(str(topic), {})[int(queue_id)] = (int(first), int(end))
    return found
