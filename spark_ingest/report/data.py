"""The data of the page, from the job's checkpoint and tables."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from entrepot.spark_ingest.job.settings import JobSettings
from entrepot.spark_ingest.job.status import JobStatus, job_status
from entrepot.spark_ingest.report.anomalies import Anomaly, Series, anomalies_of, usual_of
from entrepot.spark_ingest.tables.delta import DeltaTableFiles

MAX_MINUTES: Final = 5_000_000
"""Rows of the table of minutes that are read: the newest."""
MAX_GAPS: Final = 2_000


@dataclass(frozen=True)
class ReportData:
    """The data of the page; `progress` has a line for each batch, `drawn` the series to draw."""

    status: JobStatus
    progress: list[dict[str, Any]]
    drawn: list[Series] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    silent: list[dict[str, Any]] = field(default_factory=list)
    device_count: int = 0
    newest: datetime | None = None


def gather(checkpoint: Path, devices: int) -> ReportData:
    """Read all data. Raises NoJobError."""
    status = job_status(checkpoint)
    settings = status.settings
    series = all_series(settings)
    metrics = dict.fromkeys(each.metric for each in series)
    usual = {name: usual_of(each for each in series if each.metric == name) for name in metrics}
    anomalies = [found for each in series for found in anomalies_of(each, usual[each.metric])]
    gaps, gap_counts = _gaps(settings)
    known = _table(settings, "devices")
    rows = [] if known is None else known.select(["device", "last_seen", "last_sequence", "messages"]).to_pylist()
    newest = max((row["last_seen"] for row in rows), default=None)
    silent = []
    if newest is not None:
        limit = settings.silence_seconds
        silent = [row for row in rows if (newest - row["last_seen"]).total_seconds() > limit]
    return ReportData(
        status=status,
        progress=read_progress(settings.folder),
        drawn=_drawn(series, anomalies, gap_counts, devices),
        anomalies=sorted(anomalies, key=lambda a: (a.device, a.time)),
        gaps=gaps,
        silent=sorted(silent, key=lambda row: row["last_seen"]),
        device_count=len(rows),
        newest=newest,
    )


def read_progress(folder: Path) -> list[dict[str, Any]]:
    """The lines of the job's watcher, without one that was cut by a kill."""
    path = folder / "progress.jsonl"
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _table(settings: JobSettings, name: str) -> pa.Table | None:
    table = DeltaTableFiles(settings.sibling(name))
    return table.dataset().to_table() if table.exists() else None


def all_series(settings: JobSettings) -> list[Series]:
    """Every device's metrics by minute."""
    table = _table(settings, "minutes")
    if table is None:
        return []
    order = [("device", "ascending"), ("metric", "ascending"), ("window_start", "ascending")]
    if table.num_rows > MAX_MINUTES:
        newest = pc.select_k_unstable(table, MAX_MINUTES, sort_keys=[("window_start", "descending")])
        table = table.take(newest)
    table = table.sort_by(order)
    names = pc.binary_join_element_wise(table.column("device"), table.column("metric"), "\0").to_pylist()
    found: list[Series] = []
    start = 0
    for at in range(1, len(names) + 1):
        if at == len(names) or names[at] != names[start]:
            part = table.slice(start, at - start)
            device, metric = names[start].split("\0")
            found.append(
                Series(
                    device,
                    metric,
                    part.column("window_start").to_pylist(),
                    *(part.column(name).to_numpy() for name in ("mean", "min", "max", "count")),
                )
            )
            start = at
    return found


def _gaps(settings: JobSettings) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The open gaps, the newest first, and the number of gaps of each device."""
    table = _table(settings, "gaps")
    if table is None:
        return [], {}
    is_open = pc.or_(
        pc.not_equal(table.column("kind"), "sequence"), pc.less(table.column("arrived_later"), table.column("missing"))
    )
    table = table.filter(is_open).sort_by([("to_time", "descending")])
    counts = table.group_by("device").aggregate([("device", "count")]).to_pylist()
    return table.slice(0, MAX_GAPS).to_pylist(), {row["device"]: row["device_count"] for row in counts}


def _drawn(series: list[Series], anomalies: list[Anomaly], gaps: dict[str, int], devices: int) -> list[Series]:
    """The series of the devices with most gaps and anomalies."""
    odd: dict[str, int] = {}
    for each in anomalies:
        odd[each.device] = odd.get(each.device, 0) + 1
    names = sorted({each.device for each in series}, key=lambda d: (-odd.get(d, 0), -gaps.get(d, 0), d))[:devices]
    return [each for name in names for each in series if each.device == name]
