"""Telling the store what a batch wrote, for the journey of a message."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import orjson

from entrepot.domain.errors import EntrepotError
from entrepot.domain.journey.ingest_record import PREFIX, IngestBatch, IngestRecord, Ranges, decode_record
from entrepot.domain.key_value import ABSENT, KeyValueChange
from entrepot.spark_ingest.job.settings import JobSettings
from entrepot.spark_ingest.source.positions import from_json, incarnations_in, remade
from entrepot.spark_ingest.source.stores import reader_of
from entrepot.store_client.blocking import BlockingStore


def tell_store(settings: JobSettings, app: str, batch: int, version: str, now_ms: int) -> None:
    """Add a committed batch to the job's record in the store.  `version`: of the table, or empty.

    The table is what counts: where the store does not answer, the journey lacks the batch, and the job goes on.
    """
    ranges = ranges_of(settings.checkpoint_path, batch)
    if not ranges:
        return
    try:
        reader = reader_of(settings.location)
        if isinstance(reader, BlockingStore):  # a data directory is only read
            _add(reader, settings, app, IngestBatch(batch, version, now_ms, ranges))
    except EntrepotError as error:
        logging.getLogger(__name__).info("could not report batch %s to the store: %s", batch, error.message)


def _add(store: BlockingStore, settings: JobSettings, app: str, batch: IngestBatch) -> None:
    """Write the record.  One driver writes it, so a write in between is a fault."""
    key = PREFIX + app
    [kept] = store.get([key])
    record = IngestRecord(settings.table, str(settings.format))
    if kept is not None:
        try:
            record = decode_record(kept.value)
        except ValueError:
            pass  # of another version: begun anew
    version = ABSENT if kept is None else kept.version
    store.write([KeyValueChange(key, record.with_batch(batch).encode(), version)])


def ranges_of(checkpoint: Path, batch: int) -> Ranges:
    """Return the offsets of a batch, as the checkpoint has them: from the end of the batch before it to its own.  The
    first batch has no beginning there, and counts from offset 0."""
    told, told_before = _end_of(checkpoint, batch), _end_of(checkpoint, batch - 1)
    end, before = from_json(told), from_json(told_before)
    again = set(remade(told_before, incarnations_in(told)))
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for topic, queues in end.items():
        for queue_id, to in queues.items():
            first = 0 if (topic, queue_id) in again else before.get(topic, {}).get(queue_id, 0)
            if first < to:
                found.setdefault(topic, {})[queue_id] = (first, to)
    return found


def _end_of(checkpoint: Path, batch: int) -> dict[str, Any]:
    """Return the end of a batch as it is written; nothing where Spark has cleaned its file up."""
    try:
        lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    except OSError:
        return {}
    found: dict[str, Any] = orjson.loads(lines[2]) if len(lines) > 2 and lines[2] != "-" else {}
    return found
