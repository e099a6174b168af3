"""The page: one HTML file with everything in it.

Invariant: the page loads nothing from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, Final

import plotly.graph_objects as go

from entrepot.domain.printable import printable
from entrepot.spark_ingest.report import figures
from entrepot.spark_ingest.report.data import ReportData, gather

SHOWN_ROWS: Final = 200
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1100px; padding: 1.5rem; color: #0f172a; }
h1 { margin: 0 0 .2rem; } h2 { margin-top: 2.2rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: .8rem; margin: 1.2rem 0; }
.card { border: 1px solid #e2e8f0; border-radius: .5rem; padding: .6rem .9rem; }
.card b { display: block; font-size: 1.4rem; } .card span, .dim { color: #64748b; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .25rem .6rem; }
tr:nth-child(even) td { background: #f8fafc; } .bad b { color: #dc2626; }
details > summary { cursor: pointer; margin: .6rem 0; }
"""


def write_report(checkpoint: Path, output: Path | None, devices: int) -> Path:
    """Write the page of the job at a checkpoint; return its path. Raises NoJobError."""
    data = gather(checkpoint, devices)
    path = output or Path(f"{data.status.settings.table.rstrip('/')}_report.html")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page_of(data), encoding="utf-8")
    return path


def page_of(data: ReportData) -> str:
    """The page's text. Names of devices and topics come from messages: they are escaped."""
    settings = data.status.settings
    topics = settings.subscribe or settings.subscribe_pattern
    plots = [figures.throughput(data)]
    if len(data.progress) > 1:
        plots.append(figures.lag(data))
    plots += [figures.device_series(data, metric) for metric in dict.fromkeys(each.metric for each in data.drawn)]
    if data.gaps:
        plots.append(figures.gaps(data))
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_shown(topics)} → {_shown(Path(settings.table).name)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_shown(topics)} → {_shown(Path(settings.table).name)}</h1>",
        f'<div class="dim">{_shown(settings.table)}, {settings.format}; batch {data.status.batch}</div>',
        _cards(data),
        *_plots(plots),
        _anomalies(data),
        _gap_rows(data),
        _silent(data),
        "</body></html>",
    ]
    return "\n".join(parts)


def _shown(text: str) -> str:
    return escape(printable(text))


def _cards(data: ReportData) -> str:
    rows, status = data.status.rows, data.status
    waiting = "not known" if status.unreached else f"{sum(status.lags.values()):,}"
    missing = sum(gap["missing"] - gap["arrived_later"] for gap in data.gaps)
    cards = [
        ("in the table", f"{rows.get('good', 0):,}", False),
        ("dead letters", f"{rows.get('dead', 0):,}", bool(rows.get("dead"))),
        ("late", f"{rows.get('late', 0):,}", False),
        ("duplicates", f"{rows.get('duplicate', 0):,}", False),
        ("waiting", waiting, False),
        ("devices", f"{data.device_count:,}", False),
        ("silent", f"{len(data.silent):,}", bool(data.silent)),
        ("missing", f"{missing:,}", bool(missing)),
        ("anomalies", f"{len(data.anomalies):,}", bool(data.anomalies)),
    ]
    made = (
        f'<div class="card{" bad" if is_bad else ""}"><b>{value}</b><span>{name}</span></div>'
        for name, value, is_bad in cards
    )
    return f'<div class="cards">{"".join(made)}</div>'


def _plots(plots: list[go.Figure]) -> Iterable[str]:
    for at, figure in enumerate(plots):
        yield figure.to_html(full_html=False, include_plotlyjs="inline" if at == 0 else False, default_height=None)


def _anomalies(data: ReportData) -> str:
    rows = [
        (a.device, a.metric, a.kind, a.time.isoformat(), f"{a.value:.6g}", f"{a.score:.1f}") for a in data.anomalies
    ]
    return _table("Anomalies", ("device", "metric", "kind", "from", "value", "score"), rows)


def _gap_rows(data: ReportData) -> str:
    rows = [
        (
            gap["device"],
            gap["kind"],
            gap["after_sequence"],
            gap["before_sequence"],
            gap["missing"] - gap["arrived_later"],
            gap["from_time"].isoformat(),
            gap["to_time"].isoformat(),
        )
        for gap in data.gaps
    ]
    return _table("Gaps", ("device", "kind", "after", "before", "missing", "from", "to"), rows)


def _silent(data: ReportData) -> str:
    rows = [(row["device"], row["last_seen"].isoformat(), row["last_sequence"], row["messages"]) for row in data.silent]
    return _table("Silent devices", ("device", "last seen", "last number", "messages"), rows)


def _table(title: str, names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    if not rows:
        return f'<h2>{title}</h2><p class="dim">none</p>'
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{_shown('-' if cell is None else str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows[:SHOWN_ROWS]
    )
    more = f'<p class="dim">and {len(rows) - SHOWN_ROWS} more</p>' if len(rows) > SHOWN_ROWS else ""
    table = f"<table><tr>{head}</tr>{body}</table>"
    return f"<h2>{title}</h2><details open><summary>{len(rows):,}</summary>{table}{more}</details>"
