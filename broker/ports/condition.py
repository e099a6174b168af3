"""`domain.ports.Condition`: the broker's report on itself."""

from __future__ import annotations

from collections.abc import Callable

from entrepot.broker.cold.reads import is_tiered
from entrepot.broker.commit.measurements import engine_gauges
from entrepot.broker.ports.core import BrokerCore
from entrepot.broker.retention.cleaner import Cleaner
from entrepot.broker.store.stall import Stall
from entrepot.broker.tiered.holes import shown
from entrepot.broker.tiered.tier import Tier
from entrepot.domain.background import background
from entrepot.domain.clock import error_seconds
from entrepot.domain.errors import EntrepotError
from entrepot.domain.measurement import Histogram
from entrepot.domain.pin import Pin
from entrepot.domain.tiering import TierStatus
from entrepot.domain.topic import Topic


class Condition:
    """The condition of a broker. `cleaner`, `tier`: its retention, and its object store, if any."""

    def __init__(
        self,
        core: BrokerCore,
        cleaner: Callable[[], Cleaner],
        tier: Callable[[], Tier | None],
    ) -> None:
        self._core, self._cleaner, self._tier = core, cleaner, tier
        self._confirming = Stall()
        self.confirm_problem: Callable[[], str] = lambda: ""
        """The reason why nothing can be confirmed, in words, or nothing."""

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
        engine = self._core.engine
        return {
            **engine_gauges(engine),
            "disk_state": self._core.disk_state,
            "disk_total_bytes": self._core.disk_space[0],
            "disk_free_bytes": self._core.disk_space[1],
            "disk_refused_below_bytes": self._core.settings.watermarks.refused_below(self._core.disk_space[0]),
            **self._retention_gauges(),
            "background_faulty": len(background(self._core.loop).failing),
            "clock_error_seconds": abs(error_seconds(self._core.clock)),
            "not_confirming": int(bool(self.confirm_problem())),
            "confirm_age_seconds": self._confirming.age(engine.confirmed_offset, engine.end, self._core.loop.time()),
            "dropped_hops": self._core.tracer.dropped,
            **self._tier_gauges(),
        }

    async def pins(self) -> list[Pin]:
        return list(self._cleaner().carrying.pins)

    def _retention_gauges(self) -> dict[str, float]:
        cleaner = self._cleaner()
        return {
            "deleted_segments": cleaner.deleted_segments,
            "pinned_bytes": max((pin.bytes for pin in cleaner.carrying.pins), default=0),
            "carried_messages": cleaner.carrying.carried,
        }

    async def tiering(self) -> list[TierStatus]:
        tier = self._tier()
        return [] if tier is None else self._statuses(tier)

    def _tier_gauges(self) -> dict[str, float]:
        """Return the gauges of the tier, if any. A store that is away is one problem, however many topics have it."""
        tier = self._tier()
        if tier is None:
            return {}
        statuses = self._statuses(tier)
        of_topics = sum(bool(tier.problem_of(status.topic)) for status in statuses)
        return {
            "tier_lag_messages": sum(status.lag_messages for status in statuses),
            "tier_segments": sum(status.segments for status in statuses),
            "tier_bytes": sum(status.bytes for status in statuses),
            "tier_problems": 1 if tier.problem else of_topics + len(tier.attached.problems),
            "tier_failed_requests": tier.failed_requests,
            "tier_kept_bytes": self._cleaner().kept_bytes,
            "tier_missing_messages": sum(status.missing for status in statuses),
            "tier_skipped_messages": tier.holes.skipped,
        }

    def _statuses(self, tier: Tier) -> list[TierStatus]:
        found = [self._status(tier, topic) for topic in self._core.registry.topics.values() if is_tiered(topic)]
        for name, origin in tier.attached.origins().items():  # they are told of where something is missing
            missing, holes = tier.missing(self._core.registry.topics[name])
            if missing:
                found.append(
                    TierStatus(name, origin.table, (), 0, 0, 0, shown(missing, holes), missing=missing, holes=holes)
                )
        return found

    def _status(self, tier: Tier, topic: Topic) -> TierStatus:
        root = tier.root(topic)
        told = tier.progress.get(root)
        ends = {} if told is None else told.ends
        lag = 0
        for number in range(topic.queues):
            queue = self._core.engine.dispatcher.queue(topic.name, number)
            lag += queue.visible_offset - max(queue.min_offset, ends.get(number, 0))
        missing, holes = tier.missing(topic)
        problems = [tier.problem or ("" if told is None else told.problem), shown(missing, holes)]
        segments, size = (0, 0) if told is None else (told.segments, told.bytes)
        return TierStatus(
            topic.name,
            root,
            tuple(sorted(ends.items())),
            max(lag, 0),
            segments,
            size,
            "; ".join(each for each in problems if each),
            tier.address,
            missing,
            holes,
        )
