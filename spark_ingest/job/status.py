"""Progress of a job, read from its checkpoint, and from the store where that answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from entrepot.domain.errors import EntrepotError
from entrepot.domain.printable import printable
from entrepot.spark_ingest.job.settings import JobSettings, load_settings
from entrepot.spark_ingest.job.state import BatchState, all_states
from entrepot.spark_ingest.job.watching import lag_table
from entrepot.spark_ingest.source.options import Offsets
from entrepot.spark_ingest.source.positions import from_json
from entrepot.spark_ingest.source.stores import reader_of


class NoJobError(Exception):
    """There is no job at a checkpoint."""


@dataclass(frozen=True)
class JobStatus:
    """The progress of a job: Spark's committed `end`, and the `latest` offsets of the queues. `latest` is empty where
    no store answered, for the reason in `unreached`. `states` are those of the kept batches, in order."""

    settings: JobSettings
    batch: int
    end: Offsets
    latest: Offsets
    unreached: str
    states: list[BatchState]

    @property
    def last(self) -> BatchState | None:
        """The state of the last known batch."""
        return self.states[-1] if self.states else None

    @property
    def rows(self) -> dict[str, int]:
        """Number of rows, by kind."""
        found: dict[str, int] = {}
        for state in self.states:
            for kind, count in state.rows.items():
                found[kind] = found.get(kind, 0) + count
        return found

    @property
    def rescued(self) -> int:
        """Number of rows with values that did not fit their columns."""
        return sum(state.rescued for state in self.states)

    @property
    def lags(self) -> dict[tuple[str, int], int]:
        """Messages that wait, by topic and queue."""
        return {
            (topic, queue): max(0, last - self.end.get(topic, {}).get(queue, 0))
            for topic, queues in self.latest.items()
            for queue, last in queues.items()
        }

    def as_json(self) -> str:
        """One JSON object."""
        lags: dict[str, dict[str, int]] = {}
        for (topic, queue), lag in self.lags.items():
            lags.setdefault(topic, {})[str(queue)] = lag
        found: dict[str, Any] = {
            "table": self.settings.table,
            "format": str(self.settings.format),
            "batch": self.batch,
            "offsets": {t: {str(q): at for q, at in queues.items()} for t, queues in self.end.items()},
            "lag": lags,
            "unreached": self.unreached,
            "rows": self.rows,
            "rescued": self.rescued,
            "last_commit": _iso(self.last),
        }
        return json.dumps(found, indent=2)

    def shown(self) -> RenderableType:
        """The progress for people."""
        head = RichTable(box=None, show_header=False, pad_edge=False)
        head.add_row("table", Text(printable(f"{self.settings.table} ({self.settings.format})")))
        head.add_row("batch", f"{self.batch}" if self.batch >= 0 else "none yet")
        head.add_row("last commit", _iso(self.last) or "-")
        head.add_row("rows", ", ".join(f"{kind} {count:,}" for kind, count in self.rows.items()) or "-")
        if self.rescued:
            head.add_row("rescued", f"{self.rescued:,} of them have values that did not fit (_rescued)")
        waiting = f"not known: {self.unreached}" if self.unreached else f"{sum(self.lags.values()):,}"
        head.add_row("waiting", Text(printable(waiting)))
        if not self.lags:
            return head
        end = {topic: {q: self.end.get(topic, {}).get(q, 0) for q in queues} for topic, queues in self.latest.items()}
        return Group(head, lag_table(self.lags, end))


def job_status(checkpoint: Path) -> JobStatus:
    """Read the progress. Raises NoJobError."""
    settings = load_settings(checkpoint)
    if settings is None:
        raise NoJobError(f"there is no job at {checkpoint}")
    batch, end = committed_offsets(checkpoint)
    latest: Offsets = {}
    unreached = ""
    try:
        reader = reader_of(settings.location)
        topics = end or dict.fromkeys(settings.subscribe.split(","))
        latest = {t: {b.queue_id: b.max_offset for b in reader.bounds(t)} for t in topics if t}
    except EntrepotError as error:
        unreached = error.message
    return JobStatus(settings, batch, end, latest, unreached, all_states(settings.folder))


def committed_offsets(checkpoint: Path) -> tuple[int, Offsets]:
    """The last batch that Spark has committed, and its offsets: -1 and none before the first.

    A checkpoint has a file for each batch in `offsets` (version, metadata, then one line for each source) and one in
    `commits` when it is done.
    """
    done = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdigit()]
    if not done:
        return -1, {}
    last = max(done)
    lines = (checkpoint / "offsets" / str(last)).read_text().splitlines()
    return last, from_json(orjson.loads(lines[2])) if len(lines) > 2 and lines[2] != "-" else {}


def _iso(state: BatchState | None) -> str:
    return "" if state is None else datetime.fromtimestamp(state.ended_ms / 1000, UTC).isoformat(timespec="seconds")
