"""ClockComparing: the clock of this machine beside those of the brokers.

A gateway decides by time, for good: sessions end, wills are sent, other gateways' leases are taken over, delays and
expiry are written into messages. Its system's clock must not decide that against the cluster. Masters of which their
controllers say so are right; without such, most clocks are, this one included, if there are three. Theirs is followed,
so that all gateways judge a lease by one time; a system that is a minute off is an alarm. Of two clocks none is the odd
one: that is told, and no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from statistics import median_low
from typing import Final, NamedTuple

import structlog

from entrepot.domain.background import background
from entrepot.domain.clock import FOLLOWED_MS, MAX_APART_MS, ComparedClock, Comparison
from entrepot.domain.errors import EntrepotError
from entrepot.protocols.wire import operations as wire
from entrepot.store_client.remote.asking import ask_all
from entrepot.store_client.remote.broker_client import BrokerClient
from entrepot.store_client.remote.cluster import Cluster

LOOK_SECONDS: Final = 5.0
"""Interval between comparisons."""
ASK_SECONDS: Final = 2.0
"""Longest way of a question and its answer: half of it may be the error."""
LEAST_CLOCKS: Final = 3
"""Clocks without which none is judged, if no controllers do."""
log = structlog.get_logger(__name__)


class Told(NamedTuple):
    """The clock of a broker. `ahead_ms`: of this system's. `is_right`: its controllers say so."""

    ahead_ms: int
    is_right: bool = False


def compared(told: Sequence[Told]) -> Comparison:
    """Return the comparison of this system's clock with those of brokers."""
    if not told:
        return Comparison()
    if agreed := [each.ahead_ms for each in told if each.is_right]:
        return Comparison(-median_low(agreed), is_certain=True)
    clocks = [0, *(each.ahead_ms for each in told)]
    median = median_low(clocks)
    near = sum(abs(each - median) <= MAX_APART_MS for each in clocks)
    if len(clocks) >= LEAST_CLOCKS and 2 * near > len(clocks):
        return Comparison(-median, is_certain=True)
    return Comparison(-max((each.ahead_ms for each in told), key=abs))


class ClockComparing:
    """The comparisons of one gateway."""

    def __init__(self, cluster: Cluster, clock: ComparedClock) -> None:
        self._cluster, self._clock = cluster, clock
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Compare once, before anything is decided by the clock, and again and again from then on."""
        await self._compare(at_once=True)
        self._task = background(self._loop).keep("comparison of clocks", self._keep_comparing)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _keep_comparing(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._compare()

    async def _compare(self, *, at_once: bool = False) -> None:
        answers = await ask_all(self._cluster.ready, self._ask)
        asked = [each for _, each in answers if not isinstance(each, EntrepotError)]
        quick = [told for told, seconds in asked if 1000 * seconds <= FOLLOWED_MS]
        told = quick or [told for told, _ in asked if at_once or abs(told.ahead_ms) > MAX_APART_MS]
        if not told:
            return  # the last comparison holds
        before, found = self._clock.comparison, compared(told)
        if found.problem and before.problem and before.is_certain and not found.is_certain:
            found = Comparison(found.apart_ms, is_certain=True)  # it was the system that was wrong
        self._clock.compare(found, at_once=at_once)
        if bool(found.problem) != bool(before.problem) or found.is_certain != before.is_certain:
            log.warning("clocks differ" if found.problem else "clocks agree", problem=found.problem)

    async def _ask(self, client: BrokerClient) -> tuple[Told, float]:
        """Return a broker's clock, and the seconds of the way there and back."""
        asked, asked_ms = self._loop.time(), self._clock.system_ms()
        says, is_right = await client.call(wire.TIME, seconds=ASK_SECONDS)
        seconds = self._loop.time() - asked
        return Told(says - asked_ms - int(500 * seconds), is_right), seconds
