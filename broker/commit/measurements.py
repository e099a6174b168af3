"""A broker's measurements: times, taken once for each batch, and numbers known without a search."""

from __future__ import annotations

from entrepot.broker.store.engine import StorageEngine
from entrepot.domain.measurement import Histogram


class Measurements:
    """Times of a broker. `append`: from taking a batch to its confirm, counted for each message. `sync`: one round of
    making data durable. `pop`: from claiming messages to answering with them.

    Messages become visible in the step that confirms them, so there is nothing to measure between the two.
    """

    __slots__ = ("append", "pop", "sync")

    def __init__(self) -> None:
        self.append = Histogram()
        self.sync = Histogram()
        self.pop = Histogram()

    def by_name(self) -> dict[str, Histogram]:
        return {"append": self.append, "sync": self.sync, "pop": self.pop}


def engine_gauges(engine: StorageEngine) -> dict[str, float]:
    """Return gauges of the log: its size, waiting messages, missing bytes, and bytes not yet synced, confirmed or
    saved."""
    log = engine.commit_log
    return {
        "timing_messages": engine.pending.timers.count,
        "half_messages": len(engine.pending.halves.waiting),
        "missing_bytes": engine.report.missing_first_bytes + engine.report.missing_bytes,
        "storage_size": engine.end - log.min_offset,
        "flush_behind_bytes": engine.end - log.durable_offset,
        "dispatch_behind_bytes": engine.end - engine.confirmed_offset,
        "checkpoint_behind_bytes": engine.end - engine.checkpointer.position,
    }
