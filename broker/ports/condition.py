"""`domain.ports.Condition`: the broker's report on itself."""

from __future__ import annotations

from collections.abc import Callable

from entrepot.broker.measurements import engine_gauges
from entrepot.broker.ports.cold_reads import is_tiered
from entrepot.broker.ports.core import BrokerCore
from entrepot.broker.retention.carrying import Carrying
from entrepot.broker.tiered.tier import Tier
from entrepot.domain.background import background
from entrepot.domain.errors import EntrepotError
from entrepot.domain.measurement import Histogram
from entrepot.domain.pin import Pin
from entrepot.domain.tiering import TierStatus
from entrepot.domain.topic import Topic


class Condition:
    """The condition of a broker. `deleted_segments`: number deleted by retention. `tier`: the broker's, if any;
    `kept_bytes`: bytes of the log kept because of it. `carrying`: what carries old messages forward."""

    def __init__(
        self,
        core: BrokerCore,
        deleted_segments: Callable[[], int],
        tier: Callable[[], Tier | None] = lambda: None,
        kept_bytes: Callable[[], int] = lambda: 0,
        carrying: Callable[[], Carrying | None] = lambda: None,
    ) -> None:
        self._core, self._deleted_segments, self._tier = core, deleted_segments, tier
        self._kept_bytes, self._carrying = kept_bytes, carrying

    @property
    def failure(self) -> EntrepotError | None:
        return self._core.engine.failure

    @property
    def damage(self) -> list[str]:
        found = self._core.engine.report.damage
        return [found] if found else []

    async def measurements(self) -> dict[str, Histogram]:
        return self._core.measured.by_name()

    async def gauges(self) -> dict[str, float]:
        return {
            **engine_gauges(self._core.engine),
            "disk_state": self._core.disk_state,
            "disk_total_bytes": self._core.disk_space[0],
            "disk_free_bytes": self._core.disk_space[1],
            "deleted_segments": self._deleted_segments(),
            **self._carrying_gauges(),
            "background_faulty": len(background(self._core.loop).failing),
            "dropped_hops": self._core.tracer.dropped,
            **self._tier_gauges(),
        }

    async def pins(self) -> list[Pin]:
        carrying = self._carrying()
        return [] if carrying is None else list(carrying.pins)

    def _carrying_gauges(self) -> dict[str, float]:
        carrying = self._carrying()
        if carrying is None:
            return {}
        pinned = max((pin.bytes for pin in carrying.pins), default=0)
        return {"pinned_bytes": pinned, "carried_messages": carrying.carried}

    async def tiering(self) -> list[TierStatus]:
        tier = self._tier()
        return [] if tier is None else self._statuses(tier)

    def _tier_gauges(self) -> dict[str, float]:
        """Return the gauges of the tier, if any. A store that is away is one problem, however many topics have it."""
        tier = self._tier()
        if tier is None:
            return {}
        statuses = self._statuses(tier)
        of_topics = sum(bool(status.problem) for status in statuses)
        return {
            "tier_lag_messages": sum(status.lag_messages for status in statuses),
            "tier_segments": sum(status.segments for status in statuses),
            "tier_bytes": sum(status.bytes for status in statuses),
            "tier_problems": 1 if tier.problem else of_topics + len(tier.attached.problems),
            "tier_failed_requests": tier.failed_requests,
            "tier_kept_bytes": self._kept_bytes(),
            "tier_missing_messages": sum(status.missing for status in statuses),
        }

    def _statuses(self, tier: Tier) -> list[TierStatus]:
        return [self._status(tier, topic) for topic in self._core.registry.topics.values() if is_tiered(topic)]

    def _status(self, tier: Tier, topic: Topic) -> TierStatus:
        root = tier.root(topic)
        told = tier.progress.get(root)
        ends = {} if told is None else told.ends
        lag = 0
        for number in range(topic.queues):
            queue = self._core.engine.dispatcher.queue(topic.name, number)
            lag += queue.visible_offset - max(queue.min_offset, ends.get(number, 0))
        problem = tier.problem or ("" if told is None else told.problem)
        segments, size, missing = (0, 0, 0) if told is None else (told.segments, told.bytes, told.missing)
        uploaded = tuple(sorted(ends.items()))
        return TierStatus(topic.name, root, uploaded, max(lag, 0), segments, size, problem, tier.address, missing)
