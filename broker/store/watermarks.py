"""Watermarks: the reactions to a disk that fills up.

    warn       a warning is logged
    refuse     new messages are refused (STORAGE_FULL); consuming goes on
    emergency  the oldest segment goes before its time, unless more than retention by age or size keeps it

A watermark is a number of free bytes, or 5 % of the file system if that is less. Refusing ends by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import structlog

SMALL_DISK_DIVISOR: Final = 20

log = structlog.get_logger(__name__)


class DiskState(IntEnum):
    FINE = 0
    WARN = 1
    REFUSE = 2
    EMERGENCY = 3


@dataclass(frozen=True, slots=True)
class DiskWatermarks:
    """Free bytes below which each state begins; 0: never."""

    warn_free_bytes: int = 4 << 30
    refuse_free_bytes: int = 1 << 30
    emergency_free_bytes: int = 512 << 20

    def state(self, total: int, free: int) -> DiskState:
        """Return the state of a file system of that size with so many free bytes."""
        scale = self._scale(total)
        if free < self.emergency_free_bytes * scale:
            return DiskState.EMERGENCY
        if free < self.refuse_free_bytes * scale:
            return DiskState.REFUSE
        return DiskState.WARN if free < self.warn_free_bytes * scale else DiskState.FINE

    def refused_below(self, total: int) -> int:
        """Return the free bytes below which a file system of that size takes no new messages."""
        return int(self.refuse_free_bytes * self._scale(total))

    def _scale(self, total: int) -> float:
        """Return the part of each watermark that holds: on a small disk they keep their distances."""
        most = total // SMALL_DISK_DIVISOR
        return min(1.0, most / self.warn_free_bytes) if self.warn_free_bytes else 1.0


def tell(before: DiskState, now: DiskState, free: int) -> None:
    """Log the change of state."""
    if now > before:
        log.warning("the disk is filling up", state=now.name.lower(), free_bytes=free)
    elif now < before:
        log.info("the disk has room again", state=now.name.lower(), free_bytes=free)
