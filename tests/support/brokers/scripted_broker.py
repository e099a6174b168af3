"""A broker that is a few methods: they answer the rows of their names, with its own numbers, as over the wire."""

from __future__ import annotations

from typing import Any

from entrepot.broker.remoting.link import OnLate
from entrepot.protocols.wire.operation import Operation
from entrepot.protocols.wire.row import Row
from entrepot.protocols.wire.values import encode
from entrepot.store_client.remote.asking import Asking


class ScriptedLink:
    """A connection to it; all that is asked goes through bytes, and back."""

    problem = address = ""

    def __init__(self, broker: object) -> None:
        self._broker = broker

    async def call(self, operation: Operation, payload: bytes, seconds: float, on_late: OnLate | None = None) -> bytes:
        assert isinstance(operation, Row)
        assert operation.arguments is not None
        assert seconds > 0
        answered = operation.served_by(getattr(self._broker, operation.method))
        told: Any = await answered(*operation.arguments.decode(payload))
        return told if isinstance(told, bytes) else encode(told)


class ScriptedBroker(Asking):
    """To be given methods by its tests."""

    name = ""
    is_ready = True
    request_seconds = 1.0

    def __init__(self, number: int = 0) -> None:
        self.number, self.name = number, f"broker-{number}"
        self.link: Any = ScriptedLink(self)
