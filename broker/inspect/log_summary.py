"""LogSummary: the records met in a walk through the commit log, and the gaps that are damage.

A gap is damage if the state file's rows know its content. It is damage, too, if a later whole record was written after
the gap's place had been synced, by its durable floor. Otherwise it is a torn tail: the writes under way when the
process ended, which recovery cuts together with everything after them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from entrepot.broker.inspect.log_files import Gap, Record
from entrepot.broker.inspect.words import kind_name, time_text
from entrepot.broker.store.record import RecordKind


@dataclass(slots=True)
class _Run:
    """Records in a row."""

    counts: Counter[str] = field(default_factory=Counter)
    size: int = 0
    first: tuple[int, int] | None = None
    last: tuple[int, int] | None = None
    end: int = 0

    def take(self, found: Record) -> None:
        header = found.header
        self.counts[kind_name(header.kind)] += 1
        self.size += header.length
        if header.kind != RecordKind.PADDING:
            self.last = header.commit_log_offset, header.store_time_ms
            self.first = self.first or self.last
        self.end = header.commit_log_offset + header.length

    def append(self, other: _Run) -> None:
        if other.end:
            self.counts.update(other.counts)
            self.size += other.size
            self.first, self.last, self.end = self.first or other.first, other.last or self.last, other.end


class LogSummary:
    """The summary of one log. `position`: everything before it was synced, by the state file."""

    def __init__(self, position: int) -> None:
        self.damage: list[tuple[Gap, int | None]] = []
        self.unproven: list[Gap] = []
        self.kept = _Run()
        self._position = position
        self._behind = _Run()

    def take(self, found: Record | Gap) -> None:
        if isinstance(found, Gap):
            if found.start < self._position and not self.unproven:
                self.damage.append((found, None))
            else:
                self.unproven.append(found)
            return
        if not self.unproven:
            self.kept.take(found)
            return
        self._behind.take(found)
        floor = found.header.durable_floor
        if floor > self.unproven[0].start:
            proven = [gap for gap in self.unproven if gap.start < floor]
            self.damage += [(gap, found.header.commit_log_offset) for gap in proven]
            self.unproven = self.unproven[len(proven) :]
            if not self.unproven:
                self.kept.append(self._behind)
                self._behind = _Run()

    @property
    def end(self) -> int:
        """End of the log in a recovery that opens the store."""
        return self.kept.end

    @property
    def torn_bytes(self) -> int:
        """Bytes after the end that are not zero: written, and never confirmed."""
        used = max([0, self._behind.end, *(gap.used_end for gap in self.unproven if gap.used_end > gap.start)])
        return max(used - self.unproven[0].start, 0) if self.unproven else 0

    def as_json(self) -> dict[str, Any]:
        return {
            "records": sum(self.kept.counts.values()),
            "recordBytes": self.kept.size,
            "kinds": dict(sorted(self.kept.counts.items())),
            "firstOffset": self.kept.first and self.kept.first[0],
            "firstTime": self.kept.first and time_text(self.kept.first[1]),
            "lastOffset": self.kept.last and self.kept.last[0],
            "lastTime": self.kept.last and time_text(self.kept.last[1]),
            "end": self.end,
            "tornBytes": self.torn_bytes,
            "tornRecords": sum(self._behind.counts.values()),
        }
