"""Writes of a process, on a disk that performs them in order: one batch at a time, of all that waits then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tests.simulation.process import Process

W = TypeVar("W")


class WriteQueue(Generic[W]):
    """`perform` makes a batch durable, and returns False where the power goes meanwhile.  `tell` has the process learn
    of the last of a batch; `is_late`: some time after, when the answer to a later one may have come."""

    def __init__(
        self, process: Process, perform: Callable[[list[W]], bool], tell: Callable[[W], Any], *, is_late: bool
    ) -> None:
        self._process, self._perform, self._tell, self._is_late = process, perform, tell, is_late
        self._waiting: list[W] = []
        self._writing: list[W] = []
        self._untold = 0

    @property
    def unwritten(self) -> list[W]:
        """Those that are under way, and those that wait."""
        return [*self._writing, *self._waiting]

    @property
    def is_busy(self) -> bool:
        """True while the process waits for its disk, and others perhaps for what it holds back until then."""
        return self._untold > 0

    def clear(self) -> None:
        """The process has ended."""
        self._waiting, self._writing, self._untold = [], [], 0

    def add(self, write: W) -> None:
        self._waiting.append(write)
        if not self._writing:
            self._begin()

    def _begin(self) -> None:
        self._writing, self._waiting = self._waiting, []
        self._untold += 1
        self._process.on_disk(self._written)

    def _written(self) -> None:
        if not self._perform(self._writing):
            return
        last, self._writing = self._writing[-1], []
        if self._is_late:
            self._process.from_disk(self._told, last)
        else:
            self._process.later(0.0, self._told, last)
        if self._waiting:
            self._begin()

    def _told(self, last: W) -> None:
        self._untold -= 1
        self._tell(last)
