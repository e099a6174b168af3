"""The plots."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from typing import Any, Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from entrepot.domain.printable import printable
from entrepot.spark_ingest.report.anomalies import Anomaly, Series
from entrepot.spark_ingest.report.data import ReportData

GAP_DEVICES: Final = 40
_LAYOUT: Final = {
    "template": "plotly_white",
    "margin": {"l": 60, "r": 20, "t": 50, "b": 40},
    "hovermode": "x unified",
    "legend": {"orientation": "h", "y": -0.15},
}
_BLUE, _RED, _GREY, _AMBER = "#2563eb", "#dc2626", "#94a3b8", "#f59e0b"


def throughput(data: ReportData) -> go.Figure:
    """Rows per second of each batch, and rows so far, by kind."""
    figure = make_subplots(specs=[[{"secondary_y": True}]])
    times = [_time(state.ended_ms) for state in data.status.states]
    total = [sum(state.rows.values()) for state in data.status.states]
    rates = [
        rows / max((state.ended_ms - state.began_ms) / 1000, 0.001)
        for rows, state in zip(total, data.status.states, strict=True)
    ]
    figure.add_trace(go.Bar(x=times, y=rates, name="rows/s of the batch", marker_color=_BLUE, opacity=0.6))
    for kind, colour in (("good", "#16a34a"), ("dead", _RED), ("late", _AMBER), ("duplicate", _GREY)):
        counts = _running(state.rows.get(kind, 0) for state in data.status.states)
        if counts and counts[-1]:
            figure.add_trace(go.Scatter(x=times, y=counts, name=f"{kind}, so far", line_color=colour), secondary_y=True)
    figure.update_layout(title="Throughput", **_LAYOUT)
    figure.update_yaxes(title="rows/s", rangemode="tozero", secondary_y=False)
    figure.update_yaxes(title="rows", rangemode="tozero", secondary_y=True, showgrid=False)
    return figure


def lag(data: ReportData) -> go.Figure:
    """The lag at the end of each batch."""
    figure = go.Figure()
    times = [line["ended"] for line in data.progress]
    waiting = [line["waiting"] for line in data.progress]
    figure.add_trace(go.Scatter(x=times, y=waiting, name="waiting", fill="tozeroy", mode="lines+markers"))
    figure.update_layout(title="Lag: messages not in the table yet", **_LAYOUT)
    figure.update_yaxes(rangemode="tozero")
    return figure


def device_series(data: ReportData, metric: str) -> go.Figure:
    """One metric of the drawn devices: means by minute, anomalies, and silences."""
    figure = go.Figure()
    for series in (each for each in data.drawn if each.metric == metric):
        figure.add_trace(_line(series))
        odd = [a for a in data.anomalies if (a.device, a.metric) == (series.device, metric)]
        if odd:
            figure.add_trace(_marks(series, odd))
    figure.update_layout(title=f"{_label(metric)} by minute", **_LAYOUT)
    return figure


def _line(series: Series) -> go.Scatter:
    span = [
        f"{low:.4g} … {high:.4g}, {count}"
        for low, high, count in zip(series.low, series.high, series.count, strict=True)
    ]
    return go.Scatter(
        x=series.times,
        y=series.mean,
        name=_label(series.device),
        text=span,
        mode="lines",
        connectgaps=False,
        hovertemplate="%{y:.4g} (%{text})",
    )


def _marks(series: Series, odd: list[Anomaly]) -> go.Scatter:
    return go.Scatter(
        x=[each.time for each in odd],
        y=[each.value for each in odd],
        text=[each.kind for each in odd],
        name=f"{_label(series.device)}: odd",
        mode="markers",
        marker={"color": _RED, "size": 10, "symbol": "circle-open", "line": {"width": 2}},
        hovertemplate="%{text} %{y:.4g}",
    )


def gaps(data: ReportData) -> go.Figure:
    """A bar from the last message before a gap to the first after it, for the devices with most of them."""
    counts: dict[str, int] = {}
    for gap in data.gaps:
        counts[gap["device"]] = counts.get(gap["device"], 0) + 1
    shown = sorted(counts, key=lambda device: (-counts[device], device))[:GAP_DEVICES]
    figure = go.Figure()
    for kind, colour in (("sequence", _RED), ("silence", _AMBER), ("restart", _GREY)):
        rows = [gap for gap in data.gaps if gap["kind"] == kind and gap["device"] in shown]
        if rows:
            figure.add_trace(_bars(kind, rows, colour))
    figure.update_layout(title="Gaps by device", barmode="overlay", **{**_LAYOUT, "hovermode": "closest"})
    figure.update_layout(height=max(260, 60 + 18 * len(shown)), xaxis={"type": "date"})
    return figure


def _bars(kind: str, rows: list[dict[str, Any]], colour: str) -> go.Bar:
    return go.Bar(
        orientation="h",
        y=[_label(gap["device"]) for gap in rows],
        base=[gap["from_time"].isoformat() for gap in rows],
        x=[max((gap["to_time"] - gap["from_time"]).total_seconds() * 1000, 1) for gap in rows],
        text=[str(gap["missing"] - gap["arrived_later"]) if gap["missing"] else "" for gap in rows],
        name=kind,
        marker_color=colour,
        hovertemplate="%{y}: %{base} and %{x} ms, missing %{text}",
    )


def _label(name: str) -> str:
    """Escape a name: plotly reads tags and links in texts."""
    return escape(printable(name), quote=False)


def _running(counts: Iterable[int]) -> list[int]:
    found: list[int] = []
    for count in counts:
        found.append(count + (found[-1] if found else 0))
    return found


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
