"""What is called odd, and what is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from entrepot.spark_ingest.job.reasons import reason_of
from entrepot.spark_ingest.job.settings import seconds_of
from entrepot.spark_ingest.report import figures
from entrepot.spark_ingest.report.anomalies import Series, anomalies_of, usual_of
from entrepot.spark_ingest.report.data import ReportData
from tests.support.cases import cases
from tests.support.processes.terminal import acting_on_a_terminal

START = datetime(2026, 1, 1, tzinfo=UTC)


def series(mean: list[float], spread: float = 0.0) -> Series:
    values = np.array(mean, np.float64)
    times = [START + timedelta(minutes=at) for at in range(len(mean))]
    return Series("d", "m", times, values, values - spread, values + spread, np.full(len(mean), 10))


def test_a_value_far_from_the_others_is_odd():
    values = [20 + 0.1 * (at % 5) for at in range(60)]
    assert list(anomalies_of(series(values))) == []
    values[30] = 90.0
    (found,) = anomalies_of(series(values))
    assert (found.kind, found.value, found.time) == ("outlier", 90.0, START + timedelta(minutes=30))


def test_noise_is_not_odd():
    noise = np.random.default_rng(7).normal(20, 3, 2000).tolist()
    assert len(list(anomalies_of(series(noise, spread=5.0)))) == 0


def test_a_sensor_that_no_longer_moves():
    values = [20 + at % 3 for at in range(30)] + [21.0] * 15
    found = [each for each in anomalies_of(series(values)) if each.kind == "stuck"]
    assert [(each.time, each.value) for each in found] == [(START + timedelta(minutes=30), 21.0)] or found[
        0
    ].score >= 15
    assert list(anomalies_of(series([5.0] * 50))) == []  # it never moved: a setting, not a fault


def test_a_short_series_says_nothing():
    assert list(anomalies_of(series([1, 1, 900]))) == []


@cases(("text", "seconds"), [("10s", 10), ("5m", 300), ("1 hour", 3600), ("250ms", 0.25), ("2 days", 172800)])
def test_durations(text: str, seconds: float):
    assert seconds_of(text) == seconds


@cases("text", ["", "10", "s", "-5s", "1 week", "5 m 3 s"])
def test_durations_that_are_none(text: str):
    with pytest.raises(ValueError, match="such as 10s"):
        seconds_of(text)


def test_the_reason_of_a_failure_is_its_last_line():
    text = (
        "[STREAM_FAILED] Query failed\n  File x\nspark_ingest.tables.table.TableError: /x: column a\n SQLSTATE: 39000"
    )
    assert reason_of(Exception(text)) == "/x: column a"
    assert reason_of(Exception("a\nb.DataLossError: DATA_LOSS: t/0 is gone\nmore")) == "DATA_LOSS: t/0 is gone"
    assert reason_of(Exception("just this")) == "just this"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "[STREAM_FAILED] Query [id = 1d14, runId = b701] terminated with exception: Job aborted due to stage "
            "failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in stage 3.0 (TID 9) "
            "(host executor 1): java.io.IOException: No space left on device SQLSTATE: XXKST\n\tat java.io.X.write",
            "No space left on device",
        ),
        (
            "An error occurred while calling o55.load.\n: java.lang.IllegalArgumentException: requirement failed: no\n"
            "\tat org.apache.spark.Spark.x(Spark.scala:1)",
            "requirement failed: no",
        ),
        ("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03;", "Path does not exist: file:/x."),
        ("java.lang.StackOverflowError\n\tat java.base/java.util.regex.Pattern", "StackOverflowError"),
        ("An error occurred while calling o155.stop", "it gave no reason: one of its processes may have been killed"),
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: SQLSTATE: XXKST (no cause message)\n"
            "=== Streaming Query ===\nIdentifier: [id = 1]",
            "it gave no reason: one of its processes may have been killed",
        ),
        ("Connection reset\n=== Streaming Query ===\nIdentifier: [id = 1]", "Connection reset"),
        ("", "it gave no reason: one of its processes may have been killed"),
    ],
)
def test_what_spark_says_is_told_without_its_stacks(said: str, reason: str) -> None:
    assert reason_of(Exception(said)) == reason


def test_a_short_series_is_compared_with_the_fleet():
    fleet = [series([20 + at % 5 * 0.1 for at in range(6)]) for _ in range(10)]
    usual = usual_of(fleet)
    assert list(anomalies_of(fleet[0], usual)) == []
    (found,) = anomalies_of(series([20.1, 20.2, 80.0]), usual)
    assert (found.kind, found.value) == ("outlier", 80.0)


def test_names_in_plots_are_shown_as_they_are():
    """Plotly reads tags and links in its texts, and the page has them in a script."""
    hostile = "<a href='https://x'>d</a></script><script>alert(1)</script>\x1b[31m\u202e"
    one = series([1.0, 2.0])
    gap = {"device": hostile, "kind": "silence", "missing": 1, "arrived_later": 0}
    gap |= {"from_time": START, "to_time": START + timedelta(seconds=5)}
    drawn = [Series(hostile, hostile, one.times, one.mean, one.low, one.high, one.count)]
    data = cast(ReportData, SimpleNamespace(drawn=drawn, anomalies=[], gaps=[gap]))
    for figure in (figures.device_series(data, hostile), figures.gaps(data)):
        page = figure.to_html(full_html=False, include_plotlyjs=False)
        assert acting_on_a_terminal(page) == "" and "alert(1)" in page
        assert "<script>alert" not in page and "\\u003cscript" not in page and "&lt;" in page.replace("\\u0026", "&")
