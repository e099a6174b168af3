"""The state of a job after each batch: the watermark, and counts.

There is one file for each batch, written before the main table's commit. A repeated batch reads the state of the batch
before it, and so makes the same rows late.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson

from entrepot.spark_ingest.job.rows import EARLIEST_MICROS
from entrepot.spark_ingest.tables.staging import replace_file

KEPT_BATCHES: Final = 5_000
"""Batches whose files stay, for the report."""


@dataclass(frozen=True, slots=True)
class BatchState:
    """The state after a batch. Times are epoch milliseconds; `rows` are counted by kind; `rescued`: those of them with
    values that did not fit their columns."""

    batch: int
    newest_ms: int | None = None
    rows: dict[str, int] = field(default_factory=dict)
    size: int = 0
    began_ms: int = 0
    ended_ms: int = 0
    derived: dict[str, int] = field(default_factory=dict)
    rescued: int = 0

    @property
    def has_no_good_rows(self) -> bool:
        """True if the batch is over without the main table's commit, as it had no good rows."""
        return bool(self.ended_ms) and not self.rows.get("good")

    def watermark(self, delay_seconds: float) -> datetime | None:
        """The watermark: older rows are late."""
        if self.newest_ms is None:
            return None
        at_ms = max(self.newest_ms - delay_seconds * 1000, EARLIEST_MICROS / 1000)
        return datetime.fromtimestamp(at_ms / 1000, UTC)


def _path(folder: Path, batch: int) -> Path:
    return folder / "batches" / f"{batch:09d}.json"


def read_state(folder: Path, batch: int) -> BatchState:
    """Read the state after a batch; an empty one where there is none (-1, or the files are gone)."""
    path = _path(folder, batch)
    return BatchState(**json.loads(path.read_bytes())) if path.exists() else BatchState(batch)


def write_state(folder: Path, state: BatchState) -> None:
    """Write the state, and delete old ones."""
    path = _path(folder, state.batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, orjson.dumps(asdict(state)))
    _path(folder, state.batch - KEPT_BATCHES).unlink(missing_ok=True)


def all_states(folder: Path) -> list[BatchState]:
    """The existing states, in order."""
    return [BatchState(**json.loads(path.read_bytes())) for path in sorted((folder / "batches").glob("*.json"))]
