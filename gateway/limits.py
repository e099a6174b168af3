"""Limits: rates of producers, and clients that connect too often.

A rate is held by debt: messages are taken, and a producer in debt is not read until the debt is paid. Invariants: over
any time no more than rate x (time + BURST_SECONDS) and one read are taken; memory is bounded. Times are seconds of any
one monotonic clock.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

BURST_SECONDS: Final = 1.0
"""Time for which a rate's allowance may be saved up."""
FLAP_SECONDS: Final = 10.0
"""Time over which a client's connects are counted."""
MAX_WATCHED_CLIENTS: Final = 65_536
"""Clients whose connects are remembered; the one unseen for longest is forgotten."""
MAX_USERS: Final = 65_536
"""Users whose rates are remembered; likewise."""


class TokenBucket:
    """Tokens at a time; below 0 they are owed."""

    __slots__ = ("_at", "_tokens")

    def __init__(self, rate: float, now: float) -> None:
        self._tokens = max(rate * BURST_SECONDS, 1.0)
        self._at = now

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
        self._tokens = min(self._tokens + (now - self._at) * rate, max(rate * BURST_SECONDS, 1.0))
        self._at = now


@dataclass(frozen=True, slots=True)
class PublishRates:
    """Messages, and bytes of their payloads, per second; 0 is no limit."""

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


class UserAllowances:
    """The allowance of each user, shared by the user's connections."""

    def __init__(self, rates: PublishRates) -> None:
        self._rates = rates
        self._by_user: OrderedDict[str, PublishAllowance] = OrderedDict()

    def of(self, user: str, now: float) -> PublishAllowance:
        allowance = self._by_user.get(user)
        if allowance is None:
            if len(self._by_user) >= MAX_USERS:
                self._by_user.popitem(last=False)
            allowance = self._by_user[user] = PublishAllowance(self._rates, now)
        else:
            self._by_user.move_to_end(user)
        return allowance


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
        self._clients: OrderedDict[tuple[str, str], _Connects] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clients)

    def refuses(self, host: str, client_id: str, now: float) -> bool:
        """Count a CONNECT; True if it is to be refused. A refused one does not extend the ban."""
        key = host, client_id
        seen = self._clients.get(key)
        if seen is None:
            if len(self._clients) >= MAX_WATCHED_CLIENTS:
                self._clients.popitem(last=False)
            seen = self._clients[key] = _Connects(now)
        else:
            self._clients.move_to_end(key)
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
