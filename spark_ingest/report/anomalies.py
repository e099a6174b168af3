"""What is odd about a device's minutes: a value far from its own others, a sensor that no longer moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import numpy.typing as npt

FAR: Final = 6.0
"""Robust standard deviations from the median."""
LEAST_MINUTES: Final = 10
"""A series shorter than this says nothing."""
_MAD_TO_SIGMA: Final = 1.4826


@dataclass(frozen=True, slots=True)
class Series:
    """One device's metric by minute, in the order of time; arrays of the same length."""

    device: str
    metric: str
    times: list[datetime]
    mean: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    count: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Anomaly:
    """`kind`: `outlier` (`value` is the extreme) or `stuck` (`value` has not moved from `time` to `until`)."""

    device: str
    metric: str
    kind: str
    time: datetime
    until: datetime
    value: float
    score: float


def anomalies_of(series: Series) -> Iterator[Anomaly]:
    """Outliers by median and median absolute deviation, which a few odd values do not move; then a stuck end."""
    if len(series.mean) < LEAST_MINUTES:
        return
    middle = float(np.median(series.mean))
    spread = float(np.median(np.abs(series.mean - middle))) * _MAD_TO_SIGMA
    if spread == 0:  # more than half of the values are the same
        spread = float(np.std(series.mean)) or 0.0
    if spread > 0:
        extreme = np.where(series.high - middle > middle - series.low, series.high, series.low)
        # an extreme is one of `count` values: its own spread is wider than that of a mean
        wide = max(spread, float(np.median(series.high - series.low)) / 2)
        for at in np.flatnonzero(np.abs(extreme - middle) > FAR * wide):
            time, value = series.times[at], float(extreme[at])
            yield Anomaly(series.device, series.metric, "outlier", time, time, value, abs(value - middle) / wide)
    yield from _stuck(series)


def _stuck(series: Series) -> Iterator[Anomaly]:
    """A sensor that moved once, and has said one value alone for its last minutes."""
    last = series.mean[-1]
    still = (series.low == last) & (series.high == last)
    length = len(still) if still.all() else int(np.argmin(still[::-1]))
    if LEAST_MINUTES <= length < len(still):
        yield Anomaly(
            series.device, series.metric, "stuck", series.times[-length], series.times[-1], float(last), float(length)
        )
