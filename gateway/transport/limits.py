"""Limits: rates of producers, and clients that connect too often.

A rate is held by debt: messages are taken, and a producer in debt is not read until the debt is paid. Invariants: over
any time no more than rate x (time + BURST_SECONDS) and one read are taken; memory is bounded. Times are seconds of any
one monotonic clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

BURST_SECONDS: Final = 1.0
"""Time for which a rate's allowance may be saved up."""
FLAP_SECONDS: Final = 10.0
"""Time over which a client's connects are counted."""
MAX_WATCHED_CLIENTS: Final = 65_536
"""Clients whose connects are remembered; the one unseen for longest is forgotten."""
MAX_USERS: Final = 65_536
"""Users whose rates are remembered; likewise."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class TokenBucket:
    """Tokens at a time; below 0 they are owed."""

    __slots__ = ("_at", "_burst_seconds", "_tokens")

    def __init__(self, rate: float, now: float, burst_seconds: float = BURST_SECONDS) -> None:
        self._tokens = max(rate * burst_seconds, 1.0)
        self._at, self._burst_seconds = now, burst_seconds

    def spend(self, amount: float, rate: float, now: float) -> float:
        """Take tokens, also on credit; return the seconds until none are owed."""
        self._refill(rate, now)
        self._tokens -= amount
        return max(-self._tokens / rate, 0.0)

    def take(self, rate: float, now: float) -> bool:
        """Take one token if there is one."""
        self._refill(rate, now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _refill(self, rate: float, now: float) -> None:
        self._tokens = min(self._tokens + (now - self._at) * rate, max(rate * self._burst_seconds, 1.0))
        self._at = now


class Recent(Generic[_Key, _Value]):
    """A value per key, made from the time when it is first asked for; the one unasked for longest makes room."""

    def __init__(self, most: int, make: Callable[[float], _Value]) -> None:
        self._most, self._make = most, make
        self._values: OrderedDict[_Key, _Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def of(self, key: _Key, now: float) -> _Value:
        value = self._values.get(key)
        if value is None:
            if len(self._values) >= self._most:
                self._values.popitem(last=False)
            value = self._values[key] = self._make(now)
        else:
            self._values.move_to_end(key)
        return value


@dataclass(frozen=True, slots=True)
class PublishRates:
    """Messages, and bytes of their payloads, per second; 0 means no limit."""

    messages: float = 0.0
    size: float = 0.0

    @property
    def is_limited(self) -> bool:
        return bool(self.messages or self.size)


class PublishAllowance:
    """The allowance of one client, or of all connections of one user."""

    __slots__ = ("_bytes", "_messages", "_rates")

    def __init__(self, rates: PublishRates, now: float) -> None:
        self._rates = rates
        self._messages = TokenBucket(rates.messages, now)
        self._bytes = TokenBucket(rates.size, now)

    def spend(self, messages: int, size: int, now: float) -> float:
        """Count a run of publishes; return the seconds to stop reading."""
        wait = 0.0
        if self._rates.messages:
            wait = self._messages.spend(messages, self._rates.messages, now)
        if self._rates.size:
            wait = max(wait, self._bytes.spend(size, self._rates.size, now))
        return wait


class UserAllowances(Recent[str, PublishAllowance]):
    """The allowance of each user, shared by the user's connections."""

    def __init__(self, rates: PublishRates) -> None:
        super().__init__(MAX_USERS, lambda now: PublishAllowance(rates, now))


@dataclass(slots=True)
class _Connects:
    """The connects of one client: start of the count, and end of a ban."""

    since: float
    count: int = 0
    banned_until: float = 0.0


class FlappingClients:
    """A ban of `ban_seconds` for clients with more than `most` connects in FLAP_SECONDS. A client is its id and its
    address: nobody gets another one banned."""

    def __init__(self, most: int, ban_seconds: float) -> None:
        self._most, self._ban_seconds = most, ban_seconds
        self._clients: Recent[tuple[str, str], _Connects] = Recent(MAX_WATCHED_CLIENTS, _Connects)

    def __len__(self) -> int:
        return len(self._clients)

    def refuses(self, host: str, client_id: str, now: float) -> bool:
        """Count a CONNECT; True if it is to be refused. A refused one does not extend the ban."""
        seen = self._clients.of((host, client_id), now)
        if now < seen.banned_until:
            return True
        if now - seen.since >= FLAP_SECONDS:
            seen.since, seen.count = now, 0
        seen.count += 1
        if seen.count > self._most:
            seen.banned_until = now + self._ban_seconds
            seen.since, seen.count = seen.banned_until, 0
            return True
        return False
