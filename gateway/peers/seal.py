"""Seals of requests between gateways: only a holder of the cluster's secret can ask, and each request counts once.

Invariants: a seal holds for one gateway, one view and one body, for a short time, and once.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final

from entrepot.domain.clock import Clock

LIFETIME_MS: Final = 60_000
"""Validity of a seal, and the tolerated difference of two gateways' clocks, in milliseconds."""
MAX_REMEMBERED: Final = 100_000
"""Seals of the validity period remembered; beyond it requests are refused."""
NONCE_BYTES: Final = 16


class Seals:
    """Making and checking of seals with one key."""

    def __init__(self, key: bytes, clock: Clock, random_bytes: Callable[[int], bytes]) -> None:
        self._key, self._clock, self._random_bytes = key, clock, random_bytes
        self._seen: dict[bytes, int] = {}

    def make(self, gateway: str, view: str, body: bytes) -> bytes:
        """Return the seal of a request to a gateway, by its id."""
        now = b"%d" % self._clock.now_ms()
        nonce = self._random_bytes(NONCE_BYTES).hex().encode()
        return b".".join((now, nonce, self._mac(gateway, view, body, now, nonce)))

    def is_right(self, seal: bytes, gateway: str, view: str, body: bytes) -> bool:
        """True for a valid seal that was not seen before."""
        parts = seal.split(b".")
        if len(parts) != 3 or not (parts[0].isdigit() and len(parts[0]) <= 15):
            return False
        now_ms = self._clock.now_ms()
        made, nonce, mac = parts
        if abs(now_ms - int(made)) > LIFETIME_MS:
            return False
        if not hmac.compare_digest(mac, self._mac(gateway, view, body, made, nonce)):
            return False
        self._forget(now_ms)
        if nonce in self._seen or len(self._seen) >= MAX_REMEMBERED:
            return False
        self._seen[nonce] = now_ms
        return True

    def _forget(self, now_ms: int) -> None:
        """Forget nonces whose seals are over: at most twice a lifetime after they came."""
        for nonce in list(self._seen):
            if self._seen[nonce] >= now_ms - 2 * LIFETIME_MS:
                break
            del self._seen[nonce]

    def _mac(self, gateway: str, view: str, body: bytes, made: bytes, nonce: bytes) -> bytes:
        head = b"\n".join((gateway.encode(), view.encode(), made, nonce))
        return hmac.digest(self._key, head + b"\n" + body, "sha256").hex().encode()
