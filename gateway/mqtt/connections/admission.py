"""Admission: limits on CONNECTs, on each user's connections and on publish rates.

Limits that need no authentication are checked before it (`refusal_of`): such a refusal costs no password check.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from entrepot.domain.access.model import Principal
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.settings import MqttSettings
from entrepot.gateway.transport.limits import (
    FlappingClients,
    PublishAllowance,
    PublishRates,
    TokenBucket,
    UserAllowances,
)
from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.reason_codes import ReasonCode

Refused = tuple[ReasonCode, str]


class Admission:
    """The limits of one gateway and their state.  Times are seconds of the event loop's clock."""

    def __init__(self, settings: MqttSettings, now: float) -> None:
        self._connects_per_second = settings.max_connects_per_second
        self._connects = TokenBucket(settings.max_connects_per_second, now)
        self._flapping: FlappingClients | None = None
        if settings.max_connects_per_client:
            self._flapping = FlappingClients(settings.max_connects_per_client, settings.client_ban_seconds)
        self._max_connections_per_user = settings.max_connections_per_user
        self._connections: Counter[str] = Counter()
        self._of_client = PublishRates(
            settings.max_publishes_per_second_per_client, settings.max_publish_bytes_per_second_per_client
        )
        of_user = PublishRates(
            settings.max_publishes_per_second_per_user, settings.max_publish_bytes_per_second_per_user
        )
        self._users = UserAllowances(of_user) if of_user.is_limited else None
        self._patience = settings.publish_patience_seconds or float("inf")

    def refusal_of(self, host: str, client_id: str, now: float) -> Refused | None:
        """The reason to refuse a CONNECT before authentication, or None."""
        if self._flapping is not None and client_id and self._flapping.refuses(host, client_id, now):
            return ReasonCode.CONNECTION_RATE_EXCEEDED, "the client connects too often"
        if self._connects_per_second and not self._connects.take(self._connects_per_second, now):
            return ReasonCode.CONNECTION_RATE_EXCEEDED, "clients connect too fast"
        return None

    def enter(self, client: MqttClient, principal: Principal, replaced: MqttClient | None) -> Refused | None:
        """Count a connection of a user, or return the reason to refuse it.  Anonymous clients are not counted.
        `replaced`: the connection that has the client id so far."""
        if not self._max_connections_per_user or principal.is_anonymous:
            return None
        goes = replaced is not None and replaced.counted_user == principal.name
        if self._connections[principal.name] - goes >= self._max_connections_per_user:
            return ReasonCode.QUOTA_EXCEEDED, "the user has too many connections"
        self._connections[principal.name] += 1
        client.counted_user = principal.name
        return None

    def leave(self, client: MqttClient) -> None:
        """Count a connection no longer; may be called again."""
        user, client.counted_user = client.counted_user, None
        if user is not None:
            self._connections[user] -= 1
            if not self._connections[user]:
                del self._connections[user]

    def pace_of(self, principal: Principal | None, now: float) -> Pace | None:
        """Return a connection's rate limits, or None where there are none."""
        allowances = [PublishAllowance(self._of_client, now)] if self._of_client.is_limited else []
        if self._users is not None and principal is not None and not principal.is_anonymous:
            allowances.append(self._users.of(principal.name, now))
        return Pace(allowances, self._patience) if allowances else None


class Pace:
    """The rate limits of one connection's publishes."""

    __slots__ = ("_allowances", "_holds_until", "_is_holding", "_patience")

    def __init__(self, allowances: list[PublishAllowance], patience: float) -> None:
        self._allowances, self._patience = allowances, patience
        self._is_holding, self._holds_until = False, 0.0

    def keeps(self, packets: list[Publish], client: MqttClient, loop: asyncio.AbstractEventLoop) -> bool:
        """Count a run of publishes, and pause reading as long as the rates require; False beyond all patience."""
        now, count, size = loop.time(), len(packets), sum(len(packet.payload) for packet in packets)
        wait = max(allowance.spend(count, size, now) for allowance in self._allowances)
        if wait > self._patience:
            return False
        if wait and client.driver is not None:
            self._holds_until = now + wait
            if not self._is_holding:
                self._is_holding = True
                client.driver.pause_reading(self)
                loop.call_later(wait, self._read_on, client, loop)
        return True

    def _read_on(self, client: MqttClient, loop: asyncio.AbstractEventLoop) -> None:
        left = self._holds_until - loop.time()
        if left > 0:  # the same read brought more
            loop.call_later(left, self._read_on, client, loop)
            return
        self._is_holding = False
        if client.driver is not None:
            client.driver.resume_reading(self)
