"""Spare descriptors: the store opens files in place of them when others hold all descriptors of the process.

Connections come from outside, the next segment of the log has to be there in time. So some descriptors of nothing are
held from the first file on. One of them is given up for each file that cannot be opened otherwise, and taken again as
soon as the system gives one. Without spares the store has no room, as on a full disk, until descriptors are free again.
"""

from __future__ import annotations

import errno
import os
from typing import Final

SPARES: Final = 32
"""Files that can be opened after the last descriptor of the process was taken."""
NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)
"""Errors of a process, and of a system, that has no descriptor left."""


class SpareDescriptors:
    """Descriptors of nothing, `count` of them where the system gives so many."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: list[int] = []

    def open(self, path: str, flags: int, mode: int) -> int:
        """Open a file, in place of a spare descriptor if there is no other. Raises OSError."""
        while True:
            try:
                descriptor = os.open(path, flags, mode)
                break
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not self._held:
                    raise
                os.close(self._held.pop())  # another thread may take it first
        if len(self._held) < self._count:
            self._fill()
        return descriptor

    def _fill(self) -> None:
        try:
            while len(self._held) < self._count:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return  # a later open tries again


SPARE: Final = SpareDescriptors(SPARES)
"""Those of this process."""
