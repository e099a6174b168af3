"""`domain.ports.Condition`: what the broker says of itself."""

from __future__ import annotations

from collections.abc import Callable

from broker.measurements import engine_gauges
from broker.ports.core import BrokerCore
from domain.errors import EntrepotError
from domain.measurement import Histogram


class Condition:
    """`deleted_segments`: how many retention has deleted."""

    def __init__(self, core: BrokerCore, deleted_segments: Callable[[], int]) -> None:
        self._core, self._deleted_segments = core, deleted_segments

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
            "deleted_segments": self._deleted_segments(),
            "dropped_hops": self._core.tracer.dropped,
        }
