"""A job's progress for people and for Prometheus."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from entrepot.domain.printable import printable
from entrepot.spark_ingest.source.options import Offsets
from entrepot.spark_ingest.source.positions import from_json

SHOWN_QUEUES: Final = 16


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Spark's progress of one batch; `rate` is rows per second of the batch's own time, `ended` is ISO 8601."""

    batch: int
    rows: int
    rate: float
    seconds: float
    ended: str
    end: Offsets = field(default_factory=dict)
    latest: Offsets = field(default_factory=dict)

    @property
    def lags(self) -> dict[tuple[str, int], int]:
        """Messages that wait, by topic and queue."""
        return {
            (topic, queue): max(0, self.latest.get(topic, {}).get(queue, at) - at)
            for topic, queues in self.end.items()
            for queue, at in queues.items()
        }


def progress_of(found: dict[str, Any]) -> JobProgress:
    """Convert a query's progress."""
    first = found["sources"][0] if found.get("sources") else {}
    seconds = found.get("durationMs", {}).get("triggerExecution", 0) / 1000
    rows = found.get("numInputRows")
    if rows is None:  # through Connect only the sources' numbers are told
        rows = sum(source["numInputRows"] for source in found["sources"])
    return JobProgress(
        batch=found["batchId"],
        rows=rows,
        rate=rows / seconds if seconds else 0.0,
        seconds=seconds,
        ended=found["timestamp"],
        end=_offsets(first.get("endOffset")),
        latest=_offsets(first.get("latestOffset")),
    )


def _offsets(given: Any) -> Offsets:
    try:
        value = orjson.loads(given) if isinstance(given, str) else given
    except orjson.JSONDecodeError:
        return {}  # before 4.2 Spark tells objects in Java's form: the lag is not known then
    return from_json(value) if isinstance(value, dict) else {}


class JobMetrics:
    """The job's metrics at `http://HOST:PORT/metrics`."""

    def __init__(self, host: str, port: int) -> None:
        registry = CollectorRegistry()
        labels = ("topic", "queue")
        self._lag = Gauge("entrepot_ingest_lag_messages", "Messages not in the table yet", labels, registry=registry)
        self._offset = Gauge("entrepot_ingest_offset", "Where the table ends", labels, registry=registry)
        self._rows = Counter("entrepot_ingest_rows", "Messages read", registry=registry)
        self._batch = Gauge("entrepot_ingest_batch", "Number of the last batch", registry=registry)
        self._seconds = Gauge("entrepot_ingest_batch_seconds", "Seconds that the last batch took", registry=registry)
        self._server, self._thread = start_http_server(port, host, registry)
        self.port: int = self._server.server_port

    def update(self, progress: JobProgress) -> None:
        """Take in a batch."""
        for (topic, queue), lag in progress.lags.items():
            self._lag.labels(topic, queue).set(lag)
            self._offset.labels(topic, queue).set(progress.end[topic][queue])
        self._rows.inc(progress.rows)
        self._batch.set(progress.batch)
        self._seconds.set(progress.seconds)

    def close(self) -> None:
        """Release the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def lag_table(lags: dict[tuple[str, int], int], end: Offsets) -> RenderableType:
    """A table of the lag by queue: the longest first."""
    table = RichTable("topic", "queue", "in the table up to", "waiting", box=None, pad_edge=False)
    for (topic, queue), lag in sorted(lags.items(), key=lambda each: -each[1])[:SHOWN_QUEUES]:
        table.add_row(Text(printable(topic)), str(queue), f"{end[topic][queue]:,}", f"{lag:,}")
    if len(lags) > SHOWN_QUEUES:
        table.caption = f"and {len(lags) - SHOWN_QUEUES} queues more"
    return table


def shown(progress: JobProgress, total: int) -> RenderableType:
    """The progress for the terminal."""
    head = Text.assemble(
        ("batch ", "dim"), str(progress.batch), ("   rows/s ", "dim"), f"{progress.rate:,.0f}",
        ("   rows ", "dim"), f"{total:,}", ("   last commit ", "dim"), progress.ended,
    )  # fmt: skip
    return Group(head, lag_table(progress.lags, progress.end))
