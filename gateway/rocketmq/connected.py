"""RocketMqClient: a connected client as operators see it.  This module loads nothing of gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from entrepot.domain.access.model import Principal
from entrepot.gateway.messaging.test_message import RocketMqTestMessage


@dataclass(frozen=True, slots=True)
class RocketMqClient:
    """A client with an open Telemetry stream, as it described itself there.

    `number`: that of its stream at this gateway. `kind`: `producer`, `push-consumer` and so on; empty until it says so.
    `topics`: the first of those that it publishes to, or consumes, each with a filter. `in_flight`: messages held for a
    push consumer; None for others, whose messages are known by their receipt handles alone.
    """

    number: int
    client_id: str
    user: str
    address: str
    since_ms: int
    kind: str
    group: str
    topics: tuple[tuple[str, str], ...]
    language: str
    version: str
    hostname: str
    in_flight: int | None


class RocketMqClients(Protocol):
    """The RocketMQ clients of this gateway, and test messages as theirs."""

    def clients(self) -> Iterator[RocketMqClient]:
        """All of them, in no order."""

    async def disconnect(self, client_id: str) -> int:
        """End a client's streams and release its held messages; return the number of streams. An SDK opens another
        one."""

    async def send_test_message(self, given: RocketMqTestMessage, principal: Principal) -> bytes:
        """Send one message as a client of this listener would, and return its id. Raises its refusal."""
