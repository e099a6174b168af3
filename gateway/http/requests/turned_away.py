"""TurnedAway: an HTTP connection that came while descriptors were scarce, until its first bytes.

A request for its health or metrics is answered. Any other is refused with 503, and the connection closed.
"""

from __future__ import annotations

import asyncio
from typing import Final

from entrepot.domain.descriptors import TOO_MANY, descriptor_of, descriptors
from entrepot.gateway.http.requests.encoded import last_answer
from entrepot.gateway.http.requests.problems import answer_of_status
from entrepot.gateway.transport.intake import tell_refusal

ALWAYS_ANSWERED: Final = (b"GET /healthz ", b"GET /metrics ")
"""A server that lives is not to be started anew, and operators see why it refuses. `/readyz` is refused as others are,
so that new clients go elsewhere."""
_NO_DESCRIPTOR: Final = answer_of_status(503, TOO_MANY)


class TurnedAway(asyncio.Protocol):
    """Takes the place of `connection` at its transport."""

    def __init__(
        self, connection: asyncio.Protocol, transport: asyncio.Transport, headers: list[tuple[bytes, bytes]]
    ) -> None:
        self._connection, self._transport, self._headers = connection, transport, headers

    def data_received(self, data: bytes) -> None:
        if data.startswith(ALWAYS_ANSWERED):
            self._transport.set_protocol(self._connection)
            self._connection.data_received(data)
        elif not self._transport.is_closing():
            _tell(self._transport)
            self._transport.write(last_answer(_NO_DESCRIPTOR, self._headers))
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)


def look_at_descriptor(
    connection: asyncio.Protocol, transport: asyncio.Transport, headers: list[tuple[bytes, bytes]]
) -> None:
    """Turn a new connection away whose descriptor is one of the last. `headers`: those of every answer."""
    number = descriptor_of(transport)
    if descriptors().is_spent(number):
        _tell(transport)
        transport.abort()
    elif descriptors().is_scarce(number):
        transport.set_protocol(TurnedAway(connection, transport, headers))


def _tell(transport: asyncio.Transport) -> None:
    tell_refusal("http", TOO_MANY, (transport.get_extra_info("peername") or ("",))[0])
