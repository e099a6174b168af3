"""Housekeeping: the work on a topic's table beside its uploads: merges, expiry, metadata for Iceberg, vacuum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from entrepot.broker.tiered.delta_log import ConflictError
from entrepot.broker.tiered.fence import FencedError
from entrepot.broker.tiered.iceberg.iceberg_table import IcebergTable
from entrepot.broker.tiered.merging import merge
from entrepot.broker.tiered.objects import ObjectStore, TierError, problem_of
from entrepot.broker.tiered.source import TopicState
from entrepot.broker.tiered.table import TopicTable
from entrepot.domain.clock import Clock

HOUSEKEEPING_SECONDS: Final = 60.0
MERGE_PAUSE: Final = 2.0
"""Pause between two merges of a topic, in seconds, in which other topics have their turns."""
UNMERGED, BEHIND = "segments are not merged", "Iceberg's metadata is behind"
"""Problems of work beside the uploads."""
FAULTY_SECONDS: Final = 600.0
"""Pause before merges are tried again where a segment could not be read, in seconds."""
VACUUM_SECONDS: Final = 3600.0
Tell = Callable[[], None]
"""Function that tells the broker of a change."""
log = structlog.get_logger(__name__)


class Housekeeping:
    """The work on one table.  `grace`: seconds for which files that nobody refers to stay.  Times are of the steady
    clock."""

    def __init__(
        self,
        table: TopicTable,
        objects: ObjectStore,
        clock: Clock,
        iceberg: IcebergTable | None,
        *,
        grace: float,
        clusters: bool,
    ) -> None:
        self._table, self._objects, self._clock, self._iceberg = table, objects, clock, iceberg
        self._grace, self._clusters = grace, clusters
        self._problems: dict[str, str] = {}
        self._began_at = self._merges_from = self._vacuumed_at = 0.0

    @property
    def problem(self) -> str:
        """First problem of the work, or empty: uploads go on all the same."""
        return next(filter(None, self._problems.values()), "")

    def begins(self, now: float) -> bool:
        """True if it is time; then `run` is to follow."""
        is_due = not self._began_at or now >= self._began_at + HOUSEKEEPING_SECONDS
        if is_due:
            self._began_at = now
        return is_due

    def run(self, state: TopicState, now: float, tell: Tell) -> None:
        self._merge(state, now, tell)
        if self._table.expire(self._clock.now_ms() - state.retention_ms):
            tell()
        is_vacuum_due = not self._vacuumed_at or now >= self._vacuumed_at + VACUUM_SECONDS
        self._follow(state, tell, is_sweep_due=is_vacuum_due)
        if is_vacuum_due:
            if self._vacuumed_at:
                self._table.check_current()
            self._vacuumed_at = now
            self._table.vacuum(int(1000 * self._grace))

    def _merge(self, state: TopicState, now: float, tell: Tell) -> None:
        """Merge some segments, and go on soon where there was work. A fault of one of them stops nothing else, and
        is a problem until they are merged."""
        if now < self._merges_from:
            return
        try:
            if merge(self._table, self._objects, self._clock.now_ms(), clusters=self._clusters):
                self._began_at = now - max(HOUSEKEEPING_SECONDS - MERGE_PAUSE, 0.0)
                tell()
        except (ConflictError, FencedError):
            raise
        except TierError as error:
            self._merges_from = now + FAULTY_SECONDS  # it may have read much of them
            self._note(state, tell, UNMERGED, error)
        else:
            self._note(state, tell, UNMERGED)

    def _follow(self, state: TopicState, tell: Tell, *, is_sweep_due: bool) -> None:
        """Bring Iceberg's metadata up to the table. A fault there stops nothing else, and is tried again."""
        if self._iceberg is None:
            return
        try:
            self._iceberg.follow(self._table)
            if is_sweep_due:
                self._iceberg.sweep(self._table)
        except Exception as error:  # noqa: BLE001 the table is whole without it
            self._note(state, tell, BEHIND, error)
        else:
            self._note(state, tell, BEHIND)

    def _note(self, state: TopicState, tell: Tell, what: str, error: Exception | None = None) -> None:
        """Tell that something is wrong though uploads go on; without an error, that it is over."""
        told = "" if error is None else f"{what}: {problem_of(error)}"
        if told:
            log.warning("work beside uploads fails", seldom=f"{what} {state.root}", topic=state.name, problem=told)
        before, self._problems[what] = self._problems.get(what, ""), told
        if told != before:
            tell()
