"""Anomalies in a device's minutes: a value far from its own others, a sensor that no longer moves.

A device with few minutes is compared with all devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import numpy.typing as npt

FAR: Final = 6.0
"""Robust standard deviations from the median."""
LEAST_MINUTES: Final = 10
"""Shortest series that is compared with itself."""
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
    """`kind` is `outlier` (`value` is the extreme) or `stuck` (`value` has not moved from `time` to `until`)."""

    device: str
    metric: str
    kind: str
    time: datetime
    until: datetime
    value: float
    score: float


@dataclass(frozen=True, slots=True)
class Usual:
    """The usual values of a metric: their median and standard deviation."""

    middle: float
    spread: float


def usual_of(series: Iterable[Series]) -> Usual | None:
    """Compute them by median and median absolute deviation, which few outliers move; None for too few values."""
    given = list(series)
    means = np.concatenate([each.mean for each in given]) if given else np.empty(0)
    if len(means) < LEAST_MINUTES:
        return None
    middle = float(np.median(means))
    spread = float(np.median(np.abs(means - middle))) * _MAD_TO_SIGMA
    if spread == 0:  # more than half of the values are the same
        spread = float(np.std(means))
    # an extreme is one of many values of a minute: its own spread is wider than that of means
    within = np.concatenate([each.high - each.low for each in given])
    return Usual(middle, max(spread, float(np.median(within)) / 2))


def anomalies_of(series: Series, fleet: Usual | None = None) -> Iterator[Anomaly]:
    """Find outliers, then a stuck end; `fleet` has the usual values of all devices."""
    usual = usual_of([series]) or fleet
    if usual is not None and usual.spread > 0:
        middle = usual.middle
        extreme = np.where(series.high - middle > middle - series.low, series.high, series.low)
        for at in np.flatnonzero(np.abs(extreme - middle) > FAR * usual.spread):
            time, value = series.times[at], float(extreme[at])
            score = abs(value - middle) / usual.spread
            yield Anomaly(series.device, series.metric, "outlier", time, time, value, score)
    yield from _stuck(series)


def _stuck(series: Series) -> Iterator[Anomaly]:
    """Find a sensor that moved once, and has had a single value in its last minutes."""
    last = series.mean[-1]
    still = (series.low == last) & (series.high == last)
    length = len(still) if still.all() else int(np.argmin(still[::-1]))
    if LEAST_MINUTES <= length < len(still):
        yield Anomaly(
            series.device, series.metric, "stuck", series.times[-length], series.times[-1], float(last), float(length)
        )
