"""Failed logins by name and address: too many refuse further ones for a while, at every listener."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, LaterError

WINDOW_MS: Final = 60_000
"""Period over which failures are counted, in milliseconds."""
MAX_KEPT: Final = 10_000
"""Pairs of name and address counted; the oldest gives way."""
MAX_NAME: Final = 256


class FailedLogins:
    """Counts of the present period. Another name from the same address, and another address, are not touched: a device
    with a wrong password does not shut out its neighbours."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock, self._most = clock, most
        self._failures: dict[tuple[str, str], tuple[int, int]] = {}
        self._under_way: dict[tuple[str, str], set[bytes]] = {}
        """Digests of the passwords that are being checked."""

    @contextmanager
    def attempt(self, name: str, source: str, digest: bytes) -> Iterator[None]:
        """Check one password inside. Others that are checked meanwhile count as failed, so that guesses at one time do
        not pass; a fleet with one password counts once. Raises TOO_MANY_REQUESTS."""
        key = (name[:MAX_NAME], source)
        under_way = self._under_way.setdefault(key, set())
        try:
            self.check(name, source, len(under_way - {digest}))
            under_way.add(digest)
            yield
        finally:
            under_way.discard(digest)
            if not under_way:
                self._under_way.pop(key, None)

    def check(self, name: str, source: str, under_way: int = 0) -> None:
        """Raise TOO_MANY_REQUESTS where too many logins have failed, with those under way.  It holds for right ones,
        too, also where they are remembered: else guesses would find them."""
        if not self._failures and not under_way:
            return
        since, count = self._failures.get((name[:MAX_NAME], source), (self._clock.now_ms(), 0))
        count += under_way
        left_ms = since + WINDOW_MS - self._clock.now_ms()
        if count >= self._most and left_ms > 0:
            seconds = -(-left_ms // 1000)
            message = f"{count} logins of this name have failed: try again in {seconds} s"
            raise LaterError(Code.TOO_MANY_REQUESTS, message, seconds)

    def note(self, name: str, source: str) -> None:
        """Count a failure."""
        key, now_ms = (name[:MAX_NAME], source), self._clock.now_ms()
        since, count = self._failures.pop(key, (now_ms, 0))
        if now_ms >= since + WINDOW_MS:
            since, count = now_ms, 0
        while len(self._failures) >= MAX_KEPT:
            del self._failures[next(iter(self._failures))]
        self._failures[key] = since, count + 1
