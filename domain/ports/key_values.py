"""KeyValues: small durable facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from domain.key_value import MAX_SCAN, KeyValue, KeyValueChange, OnEvents


class KeyValues(Protocol):
    """Small durable facts (`domain.key_value`)."""

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]: ...

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        """Keys with a prefix in order of their code points, those behind `after`; at most MAX_SCAN."""
        ...

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        """All of the changes or none; durable when this returns.  Returns their version.

        Raises PRECONDITION_FAILED, naming the first key whose version is another; BAD_REQUEST beyond the limits.
        """
        ...

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        """Call back with the changes of each write, in order, once they are durable; returns the way to stop that.

        `on_begun`: called when it has begun, and whenever it begins anew because its keeper was away.  What was written
        before that is not told.
        """
        ...
