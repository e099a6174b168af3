"""Intake: a listener's limits of connections, by number, rate and address, before anything is known of them.

Every connection has a `Place` from its accept to its end. Invariant: the counts are those of the places given and not
left. The address is the client's: behind a trusted proxy the one that the proxy told.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

import structlog

from entrepot.domain.descriptors import NO_NUMBER, TOO_MANY, descriptors
from entrepot.gateway.transport.limits import Recent, TokenBucket

BURST_SECONDS: Final = 2.0
"""Time for which a rate's allowance may be saved up."""
MAX_ADDRESSES: Final = 65_536
"""Addresses whose rate is remembered; the one unseen for longest is forgotten."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """Limits of one listener. Rates are connections per second; 0 means no limit."""

    connections: int = 0
    accepts_per_second: float = 0.0
    accepts_per_second_per_address: float = 0.0
    half_open_per_address: int = 0


class Place:
    """One connection's share of its listener's limits."""

    __slots__ = ("_intake", "_key")

    def __init__(self, intake: Intake) -> None:
        self._intake: Intake | None = intake
        self._key = ""

    def claim(self, host: str, now: float) -> bool:
        """Set the client's address; False if that has too many connections. The place must still be left. A place that
        was left already has nothing to claim."""
        if self._intake is None:
            return True
        self._key = self._intake.claim(host, now)
        return bool(self._key)

    def admitted(self) -> None:
        """Note the login: the connection is no longer half open."""
        if self._intake is not None and self._key:
            self._intake.no_longer_half_open(self._key)
            self._key = ""

    def leave(self) -> None:
        """Leave the place; may be called again."""
        self.admitted()
        if self._intake is not None:
            self._intake.connections -= 1
            self._intake = None


class Intake:
    """The limits of one listener, and their present counts."""

    def __init__(self, listener: str, limits: IntakeLimits, now: float) -> None:
        self.listener = listener
        self.limits = limits
        self.connections = 0
        self.refused = 0
        self._bucket = TokenBucket(limits.accepts_per_second, now, BURST_SECONDS)
        rate = limits.accepts_per_second_per_address
        self._buckets: Recent[str, TokenBucket] = Recent(MAX_ADDRESSES, lambda at: TokenBucket(rate, at, BURST_SECONDS))
        self._half_open: dict[str, int] = {}

    def enter(self, now: float, descriptor: int = NO_NUMBER) -> Place | None:
        """Take a new connection; None if the listener has too many, they come too fast, or descriptors run out."""
        limits = self.limits
        if descriptors().is_spent(descriptor):
            self.refuse(TOO_MANY, "")
            return None
        if limits.connections and self.connections >= limits.connections:
            self.refuse("too many connections", "")
            return None
        if limits.accepts_per_second and not self._bucket.take(limits.accepts_per_second, now):
            self.refuse("connections come too fast", "")
            return None
        self.connections += 1
        return Place(self)

    def claim(self, host: str, now: float) -> str:
        """Count a connection as half open; return its key, empty if it is refused."""
        key, limits = _key_of(host), self.limits
        rate = limits.accepts_per_second_per_address
        if rate and not self._buckets.of(key, now).take(rate, now):
            self.refuse("connections of one address come too fast", host)
            return ""
        count = self._half_open.get(key, 0)
        if limits.half_open_per_address and count >= limits.half_open_per_address:
            self.refuse("too many half-open connections of one address", host)
            return ""
        self._half_open[key] = count + 1
        return key

    def no_longer_half_open(self, key: str) -> None:
        """Note that a connection of this key has logged in, or is gone."""
        count = self._half_open[key] - 1
        if count:
            self._half_open[key] = count
        else:
            del self._half_open[key]

    def refuse(self, reason: str, host: str, detail: str = "") -> None:
        """Count and log a connection that is refused. `reason` is one of a few; variable text goes into `detail`."""
        self.refused += 1
        tell_refusal(self.listener, reason, host, detail)


def tell_refusal(listener: str, reason: str, host: str, detail: str = "") -> None:
    """Log a connection that is refused, at a bounded rate. `reason` is one of a few."""
    more = {"detail": detail} if detail else {}
    kind = f"{listener}: {reason}"
    log.warning("a connection was refused", seldom=kind, listener=listener, reason=reason, address=host, **more)


def _key_of(host: str) -> str:
    """The address to count by: of IPv6 the /64, as one customer has at least that."""
    if ":" not in host:
        return host or "unknown"
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return address.packed[:8].hex()
