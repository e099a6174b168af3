"""Sampling: this gateway's rates each second, and the cluster's latency and lag each ten seconds by one gateway.

Invariant: the cluster's figures are taken by the first gateway that answers, so that many gateways cost a broker as
much as one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from entrepot.domain.errors import EntrepotError
from entrepot.domain.measurement import Histogram
from entrepot.domain.ports.cluster import control_of
from entrepot.gateway.operations.overview.history import History
from entrepot.gateway.operations.overview.lags import Lag, furthest_lags
from entrepot.gateway.operations.overview.shapes import ConfirmTimes, DoorRates, FiguresOfCluster
from entrepot.gateway.work.periodic_work import PeriodicWork

if TYPE_CHECKING:
    from entrepot.domain.clock import Clock
    from entrepot.domain.ports import Store
    from entrepot.gateway.door.shown import DoorFigures
    from entrepot.gateway.peers.peers import Peers

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
    """The samples of one gateway.  `doors`: figures of each, by protocol.  `lags` and `confirm` are known at the
    gateway that takes the cluster's figures."""

    def __init__(
        self, store: Store, peers: Peers, clock: Clock, doors: Callable[[], Mapping[str, DoorFigures]]
    ) -> None:
        self._store, self._peers, self._clock, self._doors = store, peers, clock, doors
        self.history = History()
        self.lags: list[Lag] | None = None
        self.confirm = ConfirmTimes()
        self.cpu: float | None = None
        self._samples: deque[tuple[float, Mapping[str, DoorFigures], float]] = deque(maxlen=RATE_SECONDS + 1)
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
        now = self._clock.now_ms() / 1000
        figures = self._doors()
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

    def _note(self, span: int, now: float, rates: dict[str, DoorRates], steps: int = 1) -> None:
        for door, of_door in rates.items():
            of_series = {"in": of_door.in_, "out": of_door.out, "connections": of_door.connections}
            for name, value in of_series.items():
                self.history.put(f"{name}.{door}", span, now, value, steps)

    def doors(self) -> dict[str, DoorRates]:
        """Return the present rates of each door."""
        if len(self._samples) < 2:
            return {door: DoorRates(of.connections) for door, of in self._doors().items()}
        (since, before, _), (now, figures, _) = self._samples[0], self._samples[-1]
        return _rates(before, figures, now - since)

    # -- the cluster ---------------------------------------------------------------------------------------------

    async def take_cluster(self) -> None:
        """Sample latency and lag, where this gateway is the one to do it."""
        if not self._peers.members.is_first:
            self._forget_cluster()
            return
        now_ms = self._clock.now_ms()
        try:
            brokers = await self._brokers()
            measured = (await self._store.condition.measurements()).get(CONFIRM)
            if measured is not None:
                self._take_confirms(measured, brokers)
            await self._take_lags(now_ms)
        except (EntrepotError, TimeoutError):
            self._forget_cluster()  # what was is not what is
            raise
        known = [lag for lag in self.lags or () if lag.seconds is not None]
        longest = sorted(known, key=lambda each: -(each.seconds or 0))[:CHARTED_LAGS]
        values = {lag.series: lag.seconds for lag in longest}
        values |= {"confirm.p50": self.confirm.p50, "confirm.p99": self.confirm.p99}
        self._of_cluster = now_ms / 1000, values
        for name, value in values.items():
            self.history.put(name, 3600, now_ms / 1000, value, LATE_STEPS)

    async def _take_lags(self, now_ms: int) -> None:
        """Read the lags of all groups, unless the last reading took so long that they hold for a while."""
        if self.lags is not None and now_ms < self._lags_due_ms:
            return
        began = time.thread_time()
        self.lags = await furthest_lags(self._store, now_ms)
        self._lags_due_ms = now_ms + round((time.thread_time() - began) / LAG_SHARE * 1000)

    def _forget_cluster(self) -> None:
        self.lags, self._confirms = None, None
        self.confirm = ConfirmTimes()

    async def _brokers(self) -> frozenset[str]:
        """The names of the brokers that answer; none where the store is in this process."""
        control = control_of(self._store)
        if control is None:
            return frozenset()
        async with asyncio.timeout(CLUSTER_SECONDS / 2):
            return frozenset(each.name for each in await control.brokers() if each.is_available)

    def _take_confirms(self, measured: Histogram, brokers: frozenset[str]) -> None:
        """Take the confirmations since the last sample: counts are sums since the start of each broker that answers, so
        they compare only between the same brokers."""
        before, self._confirms = self._confirms, (brokers, list(measured.counts))
        self.confirm = ConfirmTimes()
        if before is None or before[0] != brokers:
            return
        since = Histogram()
        since.counts = [present - past for present, past in zip(measured.counts, before[1], strict=True)]
        if min(since.counts) < 0:  # a broker has begun anew
            return
        self.confirm = ConfirmTimes(quantile_ms(since, 0.5), quantile_ms(since, 0.99))

    def of_cluster(self) -> FiguresOfCluster | None:
        """Return the figures of the cluster; None where another gateway takes them."""
        return None if self.lags is None else FiguresOfCluster(self.confirm, [lag.shown for lag in self.lags])


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
    before: Mapping[str, DoorFigures], figures: Mapping[str, DoorFigures], seconds: float
) -> dict[str, DoorRates]:
    """Return the rates between two samples."""
    found: dict[str, DoorRates] = {}
    for door, now in figures.items():
        was = before.get(door)
        if was is None:
            continue
        refused = _rate(was.refused, now.refused, seconds)
        found[door] = DoorRates(
            now.connections,
            _rate(was.messages_in, now.messages_in, seconds),
            _rate(was.messages_out, now.messages_out, seconds),
            _rate(was.bytes_in, now.bytes_in, seconds),
            None if refused is None else refused * 60,
        )
    return found


def _rate(before: int | None, now: int | None, seconds: float) -> float | None:
    """Return what came each second; None where the door does not count it."""
    return None if before is None or now is None else (now - before) / seconds
