"""KeyValues: small durable facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from entrepot.domain.key_value import MAX_SCAN, KeyValue, KeyValueChange, OnEvents


class KeyValues(Protocol):
    """Small durable facts (`domain.key_value`)."""

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]: ...

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        """Return key-values with a prefix and keys after `after`, in order of code points; at most MAX_SCAN."""

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        """Apply all of the changes or none; durable when this returns.  Returns their version.  Raises
        PRECONDITION_FAILED, naming the first key with another version; BAD_REQUEST beyond the limits."""

    def age_seconds(self) -> float:
        """Return the seconds for which values may have changed unseen, as their keeper is away or cut off; 0.0 while
        what is read and watched here is current."""

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        """Call back with the changes of each write, in order, once they are durable; returns a function to stop it.
        `on_begun`: called at the start, and at each restart after its keeper was away.  Writes before that are not
        reported."""
