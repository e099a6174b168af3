"""MqttClient: one connection's client, shared by the parts of the connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from entrepot.domain.access.model import Principal
from entrepot.gateway.mqtt.sessions.session import Session
from entrepot.gateway.transport.driver import Driver
from entrepot.protocols.mqtt.connection import ServerConnection
from entrepot.protocols.mqtt.reason_codes import ReasonCode


class MqttClient:
    """One client: its machine, driver and session, and its counters.

    `driver`: None once the socket is gone.  `session`: None until CONNECT is accepted.  `close`: end the connection
    from the server's side.  `counted_user`: user whose connection limit this one counts for.  `dropped`: number of QoS
    0 messages dropped because the client was too slow.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "client_id",
        "close",
        "connected_at_ms",
        "counted_user",
        "denials",
        "driver",
        "dropped",
        "is_bridge",
        "keep_alive",
        "last_refusal",
        "machine",
        "messages_in",
        "messages_out",
        "observe",
        "peer",
        "principal",
        "passed_over_ms",
        "refusal_noted_ms",
        "refused",
        "session",
        "traced_by",
        "wants_no_local",
    )

    def __init__(self, machine: ServerConnection, close: Callable[[ReasonCode, str], None]) -> None:
        self.machine, self.close = machine, close
        self.driver: Driver | None = None
        self.session: Session | None = None
        self.principal: Principal | None = None
        self.client_id = self.peer = ""
        self.keep_alive = self.connected_at_ms = 0
        self.counted_user: str | None = None
        self.traced_by: object | None = None
        self.observe: Callable[[bytes], None] | None = None
        """Called with outgoing bytes while the client is traced."""
        self.denials: list[Any] | None = None
        """Kept denials of its publishes and subscriptions (`ClientEvent`)."""
        self.refused = 0
        """Refused publishes and subscriptions, and a refused will."""
        self.last_refusal: Any = None
        """The last of these (`ClientEvent`)."""
        self.refusal_noted_ms = self.passed_over_ms = 0
        """When one of them was last kept and logged for the operator, in epoch milliseconds."""
        self.is_bridge = False
        """True if it says that it is a bridge: it gets nothing of its own back, and live messages say if they are
        retained, as in mosquitto."""
        self.wants_no_local = False
        """True while a subscription excludes the client's own publishes (No Local)."""
        self.bytes_in = self.bytes_out = 0
        self.messages_in = self.messages_out = self.dropped = 0

    @property
    def user(self) -> str:
        """The authenticated user's name; empty for none."""
        return "" if self.principal is None or self.principal.is_anonymous else self.principal.name

    @property
    def host(self) -> str:
        """The peer's address without the port; empty once the socket is gone."""
        return "" if self.driver is None else self.driver.source.host

    def flush(self) -> None:
        """Write the output that is due."""
        if self.driver is not None:
            self.driver.flush()
