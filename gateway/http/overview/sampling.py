"""Sampling: this gateway's rates each second, and the cluster's latency and lag each ten seconds by one gateway.

Invariant: the cluster's figures are taken by the first gateway that answers, so that many gateways cost a broker as
much as one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, Final

from entrepot.domain.cluster import control_of
from entrepot.domain.errors import EntrepotError
from entrepot.domain.measurement import Histogram
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.overview.figures import DoorFigures, figures_of
from entrepot.gateway.http.overview.history import History
from entrepot.gateway.http.overview.lags import Lag, furthest_lags
from entrepot.gateway.periodic_work import PeriodicWork

SECOND: Final = 1.0
CLUSTER_SECONDS: Final = 10.0
RATE_SECONDS: Final = 10
"""Period over which a present rate is averaged."""
MAX_MISSED: Final = 3
"""Seconds that one late sample stands for; a longer silence is a gap."""
LATE_STEPS: Final = 2
"""Steps of ten seconds that a sample of the cluster stands for, as each comes a little later."""
CHARTED_LAGS: Final = 4
LAG_SHARE: Final = 0.02
"""Share of a core that the lags of all groups may take: with many groups they are read less often."""
CONFIRM: Final = "append"


class Sampler:
    """The samples of one gateway. `lags` and `confirm` are known at the gateway that takes the cluster's figures."""

    def __init__(self, context: HttpContext) -> None:
        self._context = context
        self.history = History()
        self.lags: list[Lag] | None = None
        self.confirm: dict[str, float | None] = {"p50": None, "p99": None}
        self.cpu: float | None = None
        self._samples: deque[tuple[float, dict[str, DoorFigures], float]] = deque(maxlen=RATE_SECONDS + 1)
        self._ten_at = self._lags_due_ms = 0
        self._confirms: tuple[frozenset[str], list[int]] | None = None
        self._of_cluster: tuple[float, dict[str, float | None]] = (float("-inf"), {})
        """Time and values of the last sample of the cluster; they hold until the next."""
        self.work = (
            PeriodicWork("rates of this gateway", SECOND, self.take_second),
            PeriodicWork("latency and lag of the cluster", CLUSTER_SECONDS, self.take_cluster),
        )

    # -- this gateway --------------------------------------------------------------------------------------------

    async def take_second(self) -> None:
        """Sample the doors, and note the rates since the last sample."""
        now = self._context.clock.now_ms() / 1000
        figures = figures_of(self._context)
        before = self._samples[-1] if self._samples else None
        self._samples.append((now, figures, time.process_time()))
        if before is None or now - before[0] < SECOND / 2:
            return
        missed = min(round(now - before[0]), MAX_MISSED)
        self._note(300, now, _rates(before[1], figures, now - before[0]), missed)
        taken_at, of_cluster = self._of_cluster
        if now - taken_at <= CLUSTER_SECONDS + MAX_MISSED:
            for name, value in of_cluster.items():
                self.history.put(name, 300, now, value, missed)
        oldest = self._samples[0]
        self.cpu = (time.process_time() - oldest[2]) / max(now - oldest[0], SECOND)
        if int(now) // RATE_SECONDS != self._ten_at:
            is_late = self._ten_at and int(now) // RATE_SECONDS - self._ten_at > 1
            self._ten_at = int(now) // RATE_SECONDS
            if not is_late:
                self._note(3600, now, _rates(oldest[1], figures, now - oldest[0]))

    def _note(self, span: int, now: float, rates: dict[str, dict[str, float | None]], steps: int = 1) -> None:
        for door, of_door in rates.items():
            for name in ("in", "out", "connections"):
                self.history.put(f"{name}.{door}", span, now, of_door[name], steps)

    def doors(self) -> dict[str, dict[str, float | None]]:
        """Present rates of each door: messages and bytes a second, refusals a minute; None: not known."""
        if len(self._samples) < 2:
            return {
                door: {"connections": of.connections, "in": None, "out": None, "bytesIn": None, "refused": None}
                for door, of in figures_of(self._context).items()
            }
        (since, before, _), (now, figures, _) = self._samples[0], self._samples[-1]
        return _rates(before, figures, now - since)

    # -- the cluster ---------------------------------------------------------------------------------------------

    async def take_cluster(self) -> None:
        """Sample latency and lag, where this gateway is the one to do it."""
        if not self._context.peers.is_first:
            self._forget_cluster()
            return
        store, now_ms = self._context.store, self._context.clock.now_ms()
        try:
            brokers = await self._brokers()
            measured = (await store.condition.measurements()).get(CONFIRM)
            if measured is not None:
                self._take_confirms(measured, brokers)
            await self._take_lags(now_ms)
        except (EntrepotError, TimeoutError):
            self._forget_cluster()  # what was is not what is
            raise
        known = [lag for lag in self.lags or () if lag.seconds is not None]
        longest = sorted(known, key=lambda each: -(each.seconds or 0))[:CHARTED_LAGS]
        values = {lag.series: lag.seconds for lag in longest} | {f"confirm.{of}": ms for of, ms in self.confirm.items()}
        self._of_cluster = now_ms / 1000, values
        for name, value in values.items():
            self.history.put(name, 3600, now_ms / 1000, value, LATE_STEPS)

    async def _take_lags(self, now_ms: int) -> None:
        """Read the lags of all groups, unless the last reading took so long that they hold for a while."""
        if self.lags is not None and now_ms < self._lags_due_ms:
            return
        began = time.thread_time()
        self.lags = await furthest_lags(self._context.store, now_ms)
        self._lags_due_ms = now_ms + round((time.thread_time() - began) / LAG_SHARE * 1000)

    def _forget_cluster(self) -> None:
        self.lags, self._confirms = None, None
        self.confirm = {"p50": None, "p99": None}

    async def _brokers(self) -> frozenset[str]:
        """The names of the brokers that answer; none where the store is in this process."""
        control = control_of(self._context.store)
        if control is None:
            return frozenset()
        async with asyncio.timeout(CLUSTER_SECONDS / 2):
            return frozenset(each.name for each in await control.brokers() if each.is_available)

    def _take_confirms(self, measured: Histogram, brokers: frozenset[str]) -> None:
        """Take the confirmations since the last sample: counts are sums since the start of each broker that answers, so
        they compare only between the same brokers."""
        before, self._confirms = self._confirms, (brokers, list(measured.counts))
        self.confirm = {"p50": None, "p99": None}
        if before is None or before[0] != brokers:
            return
        since = Histogram()
        since.counts = [present - past for present, past in zip(measured.counts, before[1], strict=True)]
        if min(since.counts) < 0:  # a broker has begun anew
            return
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            self.confirm[name] = quantile_ms(since, share)

    def shape(self) -> dict[str, Any]:
        """Figures of this gateway as JSON; `cluster` is None where another takes the cluster's figures."""
        cluster = None
        if self.lags is not None:
            cluster = {"confirm": self.confirm, "lags": [lag.shape() for lag in self.lags]}
        return {"doors": self.doors(), "cpu": self.cpu, "cluster": cluster}


def quantile_ms(histogram: Histogram, share: float) -> float | None:
    """A quantile in milliseconds, interpolated inside its bucket; None without durations."""
    total = sum(histogram.counts)
    if not total:
        return None
    wanted, lower, below = share * total, 0.0, 0
    for bound, upto in histogram.cumulative():
        if upto >= wanted:
            if bound == float("inf"):
                return lower * 1000
            inside = (wanted - below) / max(upto - below, 1)
            return round((lower + (bound - lower) * inside) * 1000, 3)
        lower, below = bound, upto
    return lower * 1000


def _rates(
    before: dict[str, DoorFigures], figures: dict[str, DoorFigures], seconds: float
) -> dict[str, dict[str, float | None]]:
    """Rates between two samples."""
    found: dict[str, dict[str, float | None]] = {}
    for door, now in figures.items():
        was = before.get(door)
        if was is None:
            continue
        bytes_in = None
        if now.bytes_in is not None and was.bytes_in is not None:
            bytes_in = (now.bytes_in - was.bytes_in) / seconds
        found[door] = {
            "connections": now.connections,
            "in": (now.messages_in - was.messages_in) / seconds,
            "out": (now.messages_out - was.messages_out) / seconds,
            "bytesIn": bytes_in,
            "refused": (now.refused - was.refused) / seconds * 60,
        }
    return found
