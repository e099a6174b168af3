"""IngestJob: the last report of a Spark job that keeps tables of topics, in the key-values under `ingest/<job>`.

A job overwrites its one report after batches.  Readers compute its lag from `end` and the queues' present ends: so a
job that has died falls behind visibly.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

PREFIX: Final = "ingest/"
WRITTEN_PREFIX: Final = "spark/written/"
"""Prefix of key-values with the last batch begun, by writer and partition."""
MAX_TEXT: Final = 1024
"""Characters of a text in a report."""
MAX_NUMBER: Final = 2**63
MAX_QUEUES: Final = 512
"""Queues in a report; of a job with more, no offsets are told."""


class JobState(StrEnum):
    """The state of a job, by its own last words."""

    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True)
class IngestJob:
    """One report.  `version`: the table's, empty where its format has none or nothing was committed yet.  `batch` -1:
    none yet.  `rows`: those of the last batch with rows, which took `seconds`.  `end`: next offset by topic and queue;
    empty for unknown.  `every_seconds`: longest time between two reports of a job that runs."""

    table: str
    format: str
    state: JobState
    host: str
    at_ms: int
    batch: int = -1
    batch_ms: int = 0
    rows: int = 0
    seconds: float = 0.0
    version: str = ""
    reason: str = ""
    every_seconds: float = 0.0
    end: dict[str, dict[str, int]] = field(default_factory=dict)


def encode_job(job: IngestJob) -> bytes:
    """The report as it is stored: its texts cut, and without offsets where there are too many queues."""
    told = {name: value[:MAX_TEXT] if isinstance(value, str) else value for name, value in asdict(job).items()}
    if sum(map(len, job.end.values())) > MAX_QUEUES:
        told["end"] = {}
    return json.dumps(told).encode()


def decode_job(value: bytes) -> IngestJob:
    """Decode a report; members of later versions are left out.  Raises ValueError."""
    try:
        told: dict[str, Any] = json.loads(value)
        known = {
            each.name: _sound(type(_EXAMPLE[each.name])(told[each.name]))
            for each in fields(IngestJob)
            if each.name in told
        }
        end = {
            _sound(str(topic)): {str(_sound(int(queue))): _sound(int(at)) for queue, at in each.items()}
            for topic, each in told["end"].items()
        }
        return IngestJob(**{**known, "end": end})
    except (TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a report of a job: {error}") from None


def _sound(value: Any) -> Any:
    """Return a value that every reader can show: who may write reports is trusted less than who reads them.  Raises
    ValueError."""
    if isinstance(value, int | float) and not abs(value) < MAX_NUMBER:
        raise ValueError(f"{value} is not within 64 bits")
    if isinstance(value, str) and not isinstance(value, JobState):
        return value.encode("utf-8", "replace").decode()
    return value


_EXAMPLE: Final = vars(IngestJob("", "", JobState.ENDED, "", 0))
"""A value of each member's type."""
