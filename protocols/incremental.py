"""IncrementalDecoder: bytes of a connection to frames or packets, whatever parts they come in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_Fault = TypeVar("_Fault", bound=Exception)


class IncrementalDecoder(ABC, Generic[_Item, _Fault]):
    """`fault`: class of the protocol's errors.  `error`: the one that ended the input; all items before it were
    returned."""

    __slots__ = ("_fault", "_needed", "_partial", "error")

    def __init__(self, fault: type[_Fault]) -> None:
        self._fault = fault
        self.error: _Fault | None = None
        self._partial: bytearray | None = None  # the first bytes of one item
        self._needed = 0  # size of `_partial` at which parsing again is worthwhile

    def feed(self, data: bytes) -> list[_Item]:
        """Return the items that these bytes complete, in order."""
        items: list[_Item] = []
        if self.error is not None:
            return items
        partial = self._partial
        if partial is not None:
            partial += data
            if len(partial) < self._needed:
                return items
            data = bytes(partial)
            self._partial = None
        try:
            pos, needed = self._parse(data, items)
        except self._fault as error:
            # Its traceback would keep this chunk alive for as long as the connection.
            self.error = error.with_traceback(None)
            return items
        if pos < len(data):
            self._partial, self._needed = bytearray(memoryview(data)[pos:]), needed
        return items

    def drop(self) -> None:
        """Drop partial input; nothing more is parsed."""
        self._partial, self._needed = None, 0

    @abstractmethod
    def _parse(self, data: bytes, items: list[_Item]) -> tuple[int, int]:
        """Append every whole item; return the start of the rest, and the size it needs to be parsed again."""
